// The data of the HTML page: page_data.cpp writes it, html.cpp puts it into the page.
#pragma once

#include <string>

namespace smelt::report {

struct Report;

/// The report as one line of JSON for the page's script: formatted text beside raw numbers, '<' escaped.
std::string page_data(const Report& report);

}  // namespace smelt::report
