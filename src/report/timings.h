// Profiles that were read from files, and the difference of two, as tables.
#pragma once

#include "profile/timings.h"
#include "report/report.h"

namespace smelt::report {

Table node_table(const profile::Timings& t);
Table scope_table(const profile::Timings& t);
/// What the page shows of it: nodes, modules, and what to do.
Report report_of(const profile::Timings& t);
/// Modules of two profiles side by side.
Table scope_diff_table(const profile::Timings& a, const profile::Timings& b);
/// Nodes side by side, those whose time changed most first.
Table node_diff_table(const profile::Timings& a, const profile::Timings& b);
/// "1.20 ms in a.json, 800 µs in b.json: 1.50x faster".
std::string diff_text(const profile::Timings& a, const profile::Timings& b);

}  // namespace smelt::report
