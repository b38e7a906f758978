#include "report/html_page.h"

namespace espalier {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2321; --faint: #66716c; --line: #d9dedb; --paper: #fbfbf9; --card: #ffffff;
  --accent: #2f7d4f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8e5; --faint: #96a19b; --line: #343b38; --paper: #161a18; --card: #1e2321; --accent: #6cc08d; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; font-weight: 650; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; font-weight: 600; }
p { margin: .25rem 0 .75rem; color: var(--faint); max-width: 60rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0; }
.figure { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem; }
.figure .name, .figure .remark { color: var(--faint); font-size: .8rem; }
.figure .value { font-size: 1.45rem; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.3; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr)); gap: .75rem; }
.charts figure, .chart { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .75rem; }
svg { display: block; width: 100%; height: auto; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .8rem 1rem;
  overflow-x: auto; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace;
  white-space: pre-wrap; overflow-wrap: anywhere; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--accent); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--faint); font-weight: 600; } .number { text-align: right; }
)";

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') out += "\xEF\xBF\xBD";
        else out += c;
    }
  }
  return out;
}

void HtmlPage::close_figures() {
  if (in_figures_) body_ += "</div>\n";
  in_figures_ = false;
}

void HtmlPage::raw(std::string_view html) {
  close_figures();
  body_ += html;
}

void HtmlPage::heading(std::string_view text) { raw("<h2>" + html_escape(text) + "</h2>\n"); }
void HtmlPage::paragraph(std::string_view text) { raw("<p>" + html_escape(text) + "</p>\n"); }
void HtmlPage::preformatted(std::string_view text) { raw("<pre>" + html_escape(text) + "</pre>\n"); }

void HtmlPage::fold(std::string_view summary, std::string_view text) {
  raw("<details><summary>" + html_escape(summary) + "</summary><pre>" + html_escape(text) + "</pre></details>\n");
}

void HtmlPage::figure(std::string_view name, std::string_view value, std::string_view remark) {
  if (!in_figures_) body_ += "<div class=\"figures\">\n";
  in_figures_ = true;
  body_ += "<div class=\"figure\"><div class=\"name\">" + html_escape(name) + "</div><div class=\"value\">" +
           html_escape(value) + "</div>";
  if (!remark.empty()) body_ += "<div class=\"remark\">" + html_escape(remark) + "</div>";
  body_ += "</div>\n";
}

std::string HtmlPage::html() const {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         html_escape(title_) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + html_escape(title_) +
         "</h1>\n" + body_ + (in_figures_ ? "</div>\n" : "") + "</body>\n</html>\n";
}

}  // namespace espalier
