// The files of web/, which are part of the program.
#pragma once
#include <span>
#include <string_view>

namespace espalier {

struct WebFile {
  std::string_view name;  ///< "chat.js"
  std::string_view content;
};

std::span<const WebFile> web_files();

}  // namespace espalier
