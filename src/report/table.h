// Table: rows under named columns, written as aligned text, Markdown or HTML.
#pragma once
#include <string>
#include <vector>

namespace espalier {

struct Column {
  std::string name;
  bool number = false;  ///< right-aligned
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell a column; missing ones are empty.
  void row(std::vector<std::string> cells);

  /// Aligned by display columns (UTF-8), two spaces apart, no trailing spaces; a header line unless told otherwise.
  std::string text(bool header = true) const;
  std::string markdown() const;
  /// <table>, every cell escaped.
  std::string html() const;

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace espalier
