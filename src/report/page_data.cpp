// What the HTML page shows and draws, for its script.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "profile/limiter.h"
#include "report/document.h"
#include "report/report.h"
#include "report/timings.h"

namespace smelt::report {
namespace {

using Json = nlohmann::ordered_json;

/// The text that the page shows, with the number that it sorts by, or with the whole of a list.
Json for_page(const Cell& c, Unit unit) {
  if (c.has_number()) return Json::array({format(c, unit), c.number});
  if (!c.full.empty()) return {{"text", c.text}, {"full", c.full}};
  return format(c, unit);
}

Json for_page(const Table& t) {
  Json columns = Json::array(), rows = Json::array();
  for (const Column& c : t.columns) columns.push_back({{"key", c.key}, {"title", c.title}, {"text", c.unit == Unit::text}});
  for (const auto& row : t.rows) {
    Json r = Json::array();
    for (size_t i = 0; i < row.size(); ++i) r.push_back(for_page(row[i], t.columns[i].unit));
    rows.push_back(std::move(r));
  }
  return {{"key", t.key}, {"title", t.title}, {"columns", columns}, {"rows", rows}, {"note", t.note}};
}

/// Other tools' nodes have no order that says more.
Table longest_first(Table t) {
  t.sort_by("self_us");
  return t;
}

/// The outermost module that holds all of a step's nodes; empty where there is none.
std::string top_module(const StepInfo& s) {
  std::string top;
  for (size_t i = 0; i < s.scopes.size(); ++i) {
    const auto named = std::ranges::find_if(s.scopes[i], [](const std::string& part) { return !part.empty(); });
    const std::string own = named == s.scopes[i].end() ? "" : *named;
    if (i > 0 && own != top) return "";
    top = own;
  }
  return top;
}

/// The memory held while each step runs, over the time of one run, for the page to draw.
Json held_over_time(const profile::Profile& p) {
  const auto size = [](int64_t bytes) { return format(static_cast<double>(bytes), Unit::bytes); };
  Json steps = Json::array();
  for (size_t i = 0; i < p.steps.size() && i < p.timeline.size(); ++i) {
    const StepMemory& m = p.steps[i].step.memory;
    steps.push_back({{"name", p.steps[i].step.name},
                     {"limiter", std::string(profile::name(p.steps[i].limiter))},
                     {"module", top_module(p.steps[i].step)},
                     {"begin_us", static_cast<double>(p.timeline[i].begin_ns) / 1e3},
                     {"end_us", static_cast<double>(p.timeline[i].end_ns) / 1e3},
                     {"bytes", Json::array({m.bound, m.activations, m.workspace})},
                     {"text", fmt::format("{} held: {} of inputs and outputs, {} of activations, {} of workspace",
                                          size(p.held(p.steps[i])), size(m.bound), size(m.activations), size(m.workspace))}});
  }
  return {{"weights", size(p.footprint.weights)}, {"peak", size(p.peak_bytes)}, {"peak_step", p.peak_step}, {"steps", steps}};
}

/// The roof and each step below it, for the page to draw: operations and bytes a second over operations a byte.
Json roofline(const profile::Profile& p) {
  Json rates = Json::array(), steps = Json::array();
  std::set<DType> used;
  for (size_t i = 0; i < p.steps.size() && p.roof.bytes_per_s > 0; ++i) {
    const profile::StepRow& r = p.steps[i];
    if (r.us.median <= 0 || r.step.bytes <= 0) continue;
    const DType type = profile::computes_in(r.step);
    used.insert(p.roof.flops_per_s.contains(type) ? type : DType::f32);
    steps.push_back({{"name", r.step.name},
                     {"intensity", r.intensity()},
                     {"flops_per_s", static_cast<double>(r.step.flops) / r.us.median * 1e6},
                     {"bytes_per_s", static_cast<double>(r.step.bytes) / r.us.median * 1e6},
                     {"us", r.us.median},
                     {"limiter", std::string(profile::name(r.limiter))},
                     {"text", fmt::format("{}, {}: {}", format(r.us.median, Unit::us), profile::name(r.limiter), r.because)}});
  }
  for (const DType t : used)
    if (p.roof.peak(t) > 0)
      rates.push_back(
          {{"type", std::string(name(t))}, {"flops_per_s", p.roof.peak(t)}, {"text", format(p.roof.peak(t), Unit::flops_per_s)}});
  return {{"bytes_per_s", p.roof.bytes_per_s},
          {"text", format(p.roof.bytes_per_s, Unit::bytes_per_s)},
          {"rates", rates},
          {"steps", steps}};
}
}  // namespace

std::string page_data(const Report& r) {
  Json o = {{"title", r.title},
            {"machine", Json::array()},
            {"versions", Json::array()},
            {"drawing_note", r.drawing_note},
            {"imported", r.imported.has_value()}};
  for (const Fact& f : r.machine) o["machine"].push_back({f.title, format(f.value, Unit::text)});
  for (const Fact& f : r.versions) o["versions"].push_back({f.title, format(f.value, Unit::text)});
  const auto side = [&r](const profile::Profile& p) {
    Json s = {{"latency", format(p.latency_us.median, Unit::us)},
              {"advice", for_page(advice_table(p))},
              {"roofline", roofline(p)},
              {"others", others_text(p)},
              {"steps", for_page(r.imported ? longest_first(node_table(*r.imported)) : step_table(p))},
              {"scopes", for_page(r.imported ? scope_table(*r.imported) : scope_table(p))}};
    if (!r.imported) s["memory"] = for_page(memory_table(p)), s["held"] = held_over_time(p);
    if (!p.inside.empty()) s["inside"] = for_page(inner_table(p));
    if (!p.nodes.empty()) s["nodes"] = for_page(node_table(p));
    if (!p.copies.empty()) s["copies"] = for_page(copy_table(p));
    return s;
  };
  if (r.before) o["before"] = side(*r.before);
  if (r.after) o["after"] = side(*r.after);
  if (r.bench) {
    const profile::BenchResult& b = *r.bench;
    o["bench"] = {{"verdict", verdict(b)},      {"speedup", b.speedup()},           {"low", 1 / b.ratio.high},
                  {"high", 1 / b.ratio.low},    {"faster", b.ratio.faster()},       {"before_name", b.before.name},
                  {"after_name", b.after.name}, {"before_ms", b.before.samples_ms}, {"after_ms", b.after.samples_ms},
                  {"qa", for_page(qa_table(b))}};
  }
  if (r.contended)
    o["together"] = {{"verdict", contention_verdict(*r.contended)},
                     {"models", for_page(contention_table(*r.contended))},
                     {"remedies", for_page(remedy_table(*r.contended))},
                     {"steps", for_page(contended_step_table(*r.contended))},
                     {"timelines", Json::parse(contention_timelines(*r.contended))}};
  if (!r.differences.empty()) o["errors"] = for_page(difference_table(r.differences));
  if (r.before && r.after)
    if (const Table groups = group_table(*r.before, *r.after); !groups.rows.empty()) {
      o["groups"] = for_page(groups);
      o["waterfall"] = for_page(waterfall_table(*r.before, *r.after));
    }
  if (r.fused && !r.fused->rows.empty()) o["fused"] = for_page(*r.fused);
  if (r.slower && !r.slower->rows.empty()) o["slower"] = for_page(*r.slower);
  if (!r.explained.ledger.empty()) {
    o["rewrites"] = for_page(ledger_summary(r.explained));
    o["forms"] = for_page(form_table(r.explained));
    o["ledger"] = for_page(ledger_table(r.explained));
  }
  std::string text = o.dump(-1, ' ', false, Json::error_handler_t::replace);
  // "</script" inside a string would end the element that carries the data; "<!--" would change how it is read.
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6) text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace smelt::report
