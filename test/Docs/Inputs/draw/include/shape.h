//===- shape.h - A header with one comment ----------------------*- C++ -*-===//

/// Returns the number of elements, which is the product of all
/// extents.
long elements(const Shape &shape);
