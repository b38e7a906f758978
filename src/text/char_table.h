// The token of each character, in pages of 256 code points: one look-up, and memory for the scripts in use only.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace espalier {

class CharTable {
 public:
  void set(uint32_t code_point, int32_t id) {
    uint16_t& page = page_of_[code_point >> 8];
    if (page == 0) {
      pages_.emplace_back().fill(-1);
      page = uint16_t(pages_.size());
    }
    pages_[page - 1u][code_point & 255] = id;
  }

  /// -1: none.
  int32_t find(uint32_t code_point) const {
    const uint16_t page = page_of_[code_point >> 8];
    return page == 0 ? -1 : pages_[page - 1u][code_point & 255];
  }

 private:
  std::array<uint16_t, 0x1100> page_of_{};  // number of the page + 1; 0: none
  std::vector<std::array<int32_t, 256>> pages_;
};

}  // namespace espalier
