// A class whose name and scope a test chooses, and an instantiation of a
// template with this class.
#include <vector>

#ifndef SCOPE
#define SCOPE kiln
#endif
#ifndef MEMBER
#define MEMBER char
#endif

namespace SCOPE {
struct CLASS {
  MEMBER value;
  int size();
};
int CLASS::size() { return sizeof(CLASS); }
void add(std::vector<CLASS> &list, MEMBER value) { list.push_back({value}); }
} // namespace SCOPE
