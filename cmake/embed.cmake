# esp_embed(TARGET FOLDER): the files of a folder become part of the target, as the table that serve/web_files.h reads.
# Written anew when one of them changes.
function(esp_embed target folder)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_SOURCE_DIR}/${folder}/*)
  set(arrays "")
  set(rows "")
  set(number 0)
  foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/${file})
    file(READ ${PROJECT_SOURCE_DIR}/${folder}/${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "constexpr unsigned char kFile${number}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${file}\", text(kFile${number}, sizeof kFile${number} - 1)},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(source ${CMAKE_BINARY_DIR}/embedded_${folder}.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "// Made from ${folder}/ by cmake/embed.cmake.
#include \"serve/web_files.h\"

namespace espalier {
namespace {

@arrays@
std::string_view text(const unsigned char* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

}  // namespace

std::span<const WebFile> web_files() {
  static const WebFile kFiles[] = {
@rows@  };
  return kFiles;
}

}  // namespace espalier
")
  target_sources(${target} PRIVATE ${source})
endfunction()
