//===- ShareSelector.h - Even selection of a share of bytes -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_SHARESELECTOR_H
#define KILN_SUPPORT_SHARESELECTOR_H

#include <cstdint>

namespace kiln::support {

/// Selects some items of a sequence, spread evenly, so that they have about the
/// fraction `share` of all bytes. For any n, let B be the bytes of the first n
/// items, and S the bytes of the selected ones of these items. If all items are
/// selectable, S differs from `share` times B by at most half of the size of
/// the largest item.
class ShareSelector {
public:
  explicit ShareSelector(double share) : share(share) {}
  /// Returns true if the next item, of `bytes` bytes, is selected.
  bool select(int64_t bytes, bool isSelectable = true) {
    wanted += share * double(bytes);
    if (!isSelectable || share <= 0 ||
        selected + double(bytes) / 2 > wanted * (1 + 1e-12))
      return false;
    selected += double(bytes);
    return true;
  }

private:
  double share, wanted = 0, selected = 0;
};

} // namespace kiln::support

#endif // KILN_SUPPORT_SHARESELECTOR_H
