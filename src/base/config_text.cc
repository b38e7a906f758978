// Writing: a config as TOML, as help and as a page of docs/.
#include <algorithm>

#include <fmt/format.h>

#include "base/config.h"
#include "base/config_slots.h"

namespace espalier {

std::string flag_name(std::string path) {
  if (path.find('.') == std::string::npos) std::replace(path.begin(), path.end(), '_', '-');
  return "--" + path;
}

std::vector<FieldInfo> config_fields(ConfigRef config) {
  const FlatConfig flat(config);
  std::vector<FieldInfo> fields;
  for (const Slot& slot : flat.slots)
    fields.push_back({slot.path(), slot.type(), slot.value(), slot.help, slot.range()});
  return fields;
}

std::string config_to_toml(ConfigRef config) {
  const FlatConfig flat(config);
  std::string text;
  for (const SectionInfo& section : flat.sections) {
    std::string body;
    for (const Slot& slot : flat.slots)
      if (slot.section == section.path) body += slot.name + " = " + slot.value() + "\n";
    if (body.empty()) continue;
    if (!section.path.empty()) {
      if (!text.empty()) text += "\n";
      text += "# " + std::string(section.help) + "\n[" + section.path + "]\n";
    }
    text += body;
  }
  return text;
}

std::string config_help(ConfigRef config) {
  const FlatConfig flat(config);
  const auto flag = [](const Slot& slot) { return fmt::format("{} {}", flag_name(slot.path()), slot.type()); };
  size_t width = 0;
  for (const Slot& slot : flat.slots) width = std::max(width, flag(slot).size());
  std::string text;
  for (const SectionInfo& section : flat.sections) {
    std::string body;
    for (const Slot& slot : flat.slots) {
      if (slot.section != section.path) continue;
      const std::string range = slot.range();
      body += fmt::format("  {:<{}}  {} [{}{}{}]\n", flag(slot), width, slot.help, slot.value(),
                          range.empty() ? "" : "; ", range);
    }
    if (body.empty()) continue;
    if (!section.path.empty()) text += fmt::format("\n{}:\n", section.help);
    text += body;
  }
  return text;
}

std::string config_markdown(ConfigRef config) {
  const FlatConfig flat(config);
  const auto cell = [](std::string text) {
    for (size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) text.insert(i, 1, '\\');
    return text;
  };
  std::string text;
  for (const SectionInfo& section : flat.sections) {
    std::string rows;
    for (const Slot& slot : flat.slots)
      if (slot.section == section.path)
        rows += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", slot.name, slot.type(), cell(slot.value()),
                            cell(slot.range()), cell(slot.help));
    if (rows.empty()) continue;
    if (!text.empty()) text += "\n";
    if (!section.path.empty()) text += fmt::format("### [{}]: {}\n\n", section.path, section.help);
    text += "| key | type | default | range | meaning |\n|---|---|---|---|---|\n" + rows;
  }
  return text;
}

}  // namespace espalier
