// An extent of 0 is an error of the caller.
long elements(const Shape &shape) {
  if (shape.size() > kMost)
    return fail("has " + text(shape.size()) + " dimensions, expected "
                "at most " + text(kMost)), 0;
  return count(shape);
}
