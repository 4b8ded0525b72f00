#include <string_view>

#include "report/document.h"
#include "report/report.h"

// The page's parts are the files of src/report/page as they stand, put into the library by the assembler.
#define SMELT_EMBED(name, file)                                                       \
  __asm__(".pushsection .rodata\n.hidden smelt_" #name "_begin\n.hidden smelt_" #name \
          "_end\n"                                                                    \
          ".global smelt_" #name "_begin\n.global smelt_" #name                       \
          "_end\n"                                                                    \
          "smelt_" #name "_begin:\n.incbin \"" SMELT_PAGE_DIR "/" file                \
          "\"\n"                                                                      \
          "smelt_" #name "_end:\n.byte 0\n.popsection\n");                            \
  extern "C" const char smelt_##name##_begin[], smelt_##name##_end[];

SMELT_EMBED(page_html, "page.html")
SMELT_EMBED(page_css, "page.css")
SMELT_EMBED(page_js, "page.js")
SMELT_EMBED(drawings_js, "drawings.js")
SMELT_EMBED(waterfall_js, "waterfall.js")
SMELT_EMBED(together_js, "together.js")
SMELT_EMBED(graph_js, "graph.js")

namespace smelt::report {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// dot writes a prologue and a DOCTYPE before <svg>, which HTML does not allow there.
std::string_view svg_element(std::string_view svg) {
  const size_t at = svg.find("<svg");
  return at == std::string_view::npos ? std::string_view{} : svg.substr(at);
}

}  // namespace

std::string html(const Report& report) {
  const auto text = [](const char* begin, const char* end) { return std::string_view(begin, static_cast<size_t>(end - begin)); };
  const std::string_view page = text(smelt_page_html_begin, smelt_page_html_end);
  std::string out;
  size_t at = 0;
  for (;;) {
    const size_t open = page.find("{{", at);
    if (open == std::string_view::npos) break;
    const size_t close = page.find("}}", open);
    out += page.substr(at, open - at);
    const std::string_view slot = page.substr(open + 2, close - open - 2);
    if (slot == "style")
      out += text(smelt_page_css_begin, smelt_page_css_end);
    else if (slot == "script")
      out += text(smelt_page_js_begin, smelt_page_js_end);
    else if (slot == "drawings")
      out += text(smelt_drawings_js_begin, smelt_drawings_js_end);
    else if (slot == "waterfall")
      out += text(smelt_waterfall_js_begin, smelt_waterfall_js_end);
    else if (slot == "together")
      out += text(smelt_together_js_begin, smelt_together_js_end);
    else if (slot == "graph")
      out += text(smelt_graph_js_begin, smelt_graph_js_end);
    else if (slot == "title")
      out += escaped(report.title);
    else if (slot == "data")
      out += page_data(report);
    else if (slot == "svg_before")
      out += svg_element(report.svg_before);
    else if (slot == "svg_after")
      out += svg_element(report.svg_after);
    at = close + 2;
  }
  out += page.substr(at);
  return out;
}

}  // namespace smelt::report
