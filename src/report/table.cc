#include "report/table.h"

#include <algorithm>

#include "report/html_page.h"

namespace espalier {
namespace {

size_t columns_of(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, columns_of(text)), ' ');
  return right ? space + text : text + space;
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    if (c == '\n') out += "<br>";
    else out += c;
  }
  return out;
}

}  // namespace

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(bool header) const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  std::vector<const std::vector<std::string>*> lines;
  if (header) lines.push_back(&names);
  for (const auto& row : rows_) lines.push_back(&row);
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto* line : lines)
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], columns_of((*line)[i]));
  std::string out;
  for (const auto* line : lines) {
    for (size_t i = 0; i < widths.size(); ++i)
      out += (i ? "  " : "") + padded((*line)[i], widths[i], columns_[i].number);
    out.resize(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

std::string Table::markdown() const {
  std::string out = "|", rule = "|";
  for (const Column& column : columns_) {
    out += " " + markdown_cell(column.name) + " |";
    rule += column.number ? "---:|" : "---|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : rows_) {
    out += "|";
    for (const std::string& cell : row) out += " " + markdown_cell(cell) + " |";
    out += "\n";
  }
  return out;
}

std::string Table::html() const {
  std::string out = "<div class=\"wide\"><table>\n<thead><tr>";
  for (const Column& column : columns_)
    out += std::string("<th") + (column.number ? " class=\"number\"" : "") + ">" + html_escape(column.name) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows_) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      out += std::string("<td") + (columns_[i].number ? " class=\"number\"" : "") + ">" + html_escape(row[i]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace espalier
