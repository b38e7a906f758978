// A self-contained HTML page: style, figures and text in one file that opens anywhere, light or dark as the reader's
// system is.
#pragma once
#include <string>
#include <string_view>

namespace espalier {

/// &, <, >, " and ' as entities; control characters that HTML forbids as U+FFFD.
std::string html_escape(std::string_view text);

class HtmlPage {
 public:
  explicit HtmlPage(std::string title) : title_(std::move(title)) {}

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// Monospaced, as it is.
  void preformatted(std::string_view text);
  /// A closed fold with a summary.
  void fold(std::string_view summary, std::string_view text);
  /// A big figure with its name and a remark beneath.
  void figure(std::string_view name, std::string_view value, std::string_view remark = "");
  /// HTML made elsewhere (a table, a chart).
  void raw(std::string_view html);

  std::string html() const;

 private:
  void close_figures();
  std::string title_, body_;
  bool in_figures_ = false;
};

}  // namespace espalier
