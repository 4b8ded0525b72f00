#include <string_view>

#include "report/document.h"
#include "report/report.h"

// The page is src/report/page.html as it stands, put into the library by the assembler.
__asm__(
    ".pushsection .rodata\n"
    ".hidden smelt_page_begin\n.hidden smelt_page_end\n"
    ".global smelt_page_begin\n.global smelt_page_end\n"
    "smelt_page_begin:\n"
    ".incbin \"" SMELT_PAGE_HTML "\"\n"
    "smelt_page_end:\n"
    ".byte 0\n"
    ".popsection\n");
extern "C" const char smelt_page_begin[], smelt_page_end[];

namespace smelt::report {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

// dot writes a prologue and a DOCTYPE before <svg>, which HTML does not want.
std::string_view svg_element(std::string_view svg) {
  const size_t at = svg.find("<svg");
  return at == std::string_view::npos ? std::string_view{} : svg.substr(at);
}

}  // namespace

std::string html(const Report& report) {
  const std::string_view page(smelt_page_begin, static_cast<size_t>(smelt_page_end - smelt_page_begin));
  std::string out;
  size_t at = 0;
  for (;;) {
    const size_t open = page.find("{{", at);
    if (open == std::string_view::npos) break;
    const size_t close = page.find("}}", open);
    out += page.substr(at, open - at);
    const std::string_view slot = page.substr(open + 2, close - open - 2);
    if (slot == "title") out += escaped(report.title);
    else if (slot == "data") out += page_data(report);
    else if (slot == "svg_before") out += svg_element(report.svg_before);
    else if (slot == "svg_after") out += svg_element(report.svg_after);
    at = close + 2;
  }
  out += page.substr(at);
  return out;
}

}  // namespace smelt::report
