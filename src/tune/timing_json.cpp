#include "tune/timing_json.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace smelt::tune {

using Json = nlohmann::json;

namespace {

double microseconds_in(const Json& entry, const char* key) {
  const Json& n = entry.at(key);
  if (!n.is_number() || !(n.get<double>() >= 0)) fail("{} is {}, expected microseconds", key, dump(n));
  return n.get<double>();
}

double scale_in(const Json& entry, const char* key) {
  const Json& n = entry.at(key);
  if (!n.is_number() || !(n.get<double>() > 0)) fail("{} is {}, expected a number above 0", key, dump(n));
  return n.get<double>();
}

}  // namespace

Json to_json(const std::vector<Timing>& timings) {
  Json list = Json::array();
  for (const Timing& t : timings) {
    list.push_back({{"tactic", t.tactic},
                    {"config", t.config},
                    {"min_us", t.min},
                    {"q1_us", t.q1},
                    {"median_us", t.median},
                    {"q3_us", t.q3},
                    {"p90_us", t.p90},
                    {"samples", t.samples}});
    if (t.under_load > 0) list.back()["under_load"] = t.under_load;
    if (t.width > 0) list.back()["width"] = t.width;
    if (t.with_threads > 0) list.back()["with_threads"] = t.with_threads, list.back()["scaled"] = t.scaled;
  }
  return list;
}

std::string dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

int count_in(const Json& entry, const char* key) {
  const Json& n = entry.at(key);
  if (!n.is_number_integer() || n < 0 || n > std::numeric_limits<int>::max())
    fail("{} is {}, expected a whole number", key, dump(n));
  return n.get<int>();
}

std::vector<Timing> timings_from(const Json& list) {
  std::vector<Timing> timings;
  for (const Json& t : list) {
    timings.push_back({t.at("tactic"), t.at("config"), microseconds_in(t, "min_us"), microseconds_in(t, "q1_us"),
                       microseconds_in(t, "median_us"), microseconds_in(t, "q3_us"), microseconds_in(t, "p90_us"),
                       count_in(t, "samples"), t.contains("under_load") ? count_in(t, "under_load") : 0});
    if (t.contains("width")) timings.back().width = count_in(t, "width");
    if (t.contains("with_threads"))
      timings.back().with_threads = count_in(t, "with_threads"), timings.back().scaled = scale_in(t, "scaled");
  }
  if (std::ranges::none_of(timings, &Timing::runs)) fail("no tactic has timings");
  return timings;
}

}  // namespace smelt::tune
