#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "profile/limiter.h"
#include "report/document.h"
#include "report/report.h"

namespace smelt::report {
namespace {

using Json = nlohmann::ordered_json;

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

/// A number (null where a column of numbers has none), true or false, an array, or text.
Json to_json(const Cell& c, Unit column) {
  const Unit unit = c.unit.value_or(column);
  const bool whole = c.whole || unit == Unit::count || unit == Unit::bytes || unit == Unit::flops;
  switch (c.kind) {
    case Cell::Kind::number: return whole && std::isfinite(c.number) ? Json(std::llround(c.number)) : number(c.number);
    case Cell::Kind::flag: return c.number != 0;
    case Cell::Kind::list: {
      Json list = Json::array();
      for (const Cell& part : c.list) list.push_back(to_json(part, Unit::text));
      return list;
    }
    case Cell::Kind::text: break;
  }
  return unit != Unit::text && c.text.empty() ? Json(nullptr) : Json(c.text);
}

Json to_json(const Table& t) {
  Json rows = Json::array();
  for (const auto& row : t.rows) {
    Json r = Json::object();
    for (size_t i = 0; i < row.size(); ++i) r[t.columns[i].key] = to_json(row[i], t.columns[i].unit);
    rows.push_back(std::move(r));
  }
  return rows;
}

Json to_json(const profile::Summary& s) {
  return {{"mean", number(s.mean)}, {"median", number(s.median)}, {"p90", number(s.p90)}, {"p99", number(s.p99)},
          {"min", number(s.min)},   {"max", number(s.max)},       {"iqr", number(s.iqr)}, {"count", s.count}};
}

Json to_json(const profile::Roof& r) {
  Json rates = Json::object();
  for (const auto& [type, rate] : r.flops_per_s) rates[std::string(name(type))] = rate;
  return {{"bytes_per_s", r.bytes_per_s}, {"launch_us", r.launch_us}, {"flops_per_s", rates}, {"under_load", r.under_load}};
}

Json to_json(const profile::OtherWork& o) {
  return {{"runs", o.runs},           {"disturbed", o.disturbed},        {"waited_us", o.waited_us},
          {"stolen_us", o.stolen_us}, {"throttled_us", o.throttled_us},  {"preempted", o.preempted},
          {"cost_us", o.cost_us},     {"cost_measured", o.cost_measured}};
}

Json to_json(const std::vector<profile::Fill>& fills) {
  Json list = Json::array();
  for (const profile::Fill& f : fills)
    list.push_back({{"kernel", f.kernel},
                    {"blocks", f.blocks},
                    {"threads", f.threads},
                    {"registers", f.registers},
                    {"shared_bytes", f.shared},
                    {"multiprocessors", f.multiprocessors},
                    {"blocks_each", f.blocks_each},
                    {"occupancy", f.occupancy},
                    {"limited_by", f.limited_by},
                    {"waves", f.waves()},
                    {"what_if", f.what_if}});
  return list;
}

Json to_json(const profile::Profile& p) {
  Json steps = Json::array();
  const auto memory = [&p](const profile::StepRow& r) -> Json {
    return {{"bound_bytes", r.step.memory.bound},
            {"activation_bytes", r.step.memory.activations},
            {"workspace_bytes", r.step.memory.workspace},
            {"held_bytes", p.held(r)}};
  };
  for (const profile::StepRow& r : p.steps)
    steps.push_back({{"name", r.step.name},
                     {"op", r.step.op},
                     {"problem", r.step.problem},
                     {"tactic", r.step.tactic},
                     {"config", r.step.config},
                     {"on_host", r.step.on_host},
                     {"sources", r.step.sources},
                     {"scopes", r.step.scopes},
                     {"bytes", r.step.bytes},
                     {"flops", r.step.flops},
                     {"memory", memory(r)},
                     {"outputs", r.step.output_shapes},
                     {"us", to_json(r.us)},
                     {"share", r.share},
                     {"compute_us", number(r.compute_us)},
                     {"memory_us", number(r.memory_us)},
                     {"flops_per_byte", number(r.intensity())},
                     {"roof_share", number(r.roof_share)},
                     {"at_stake_us", number(r.at_stake_us)},
                     {"limiter", std::string(profile::name(r.limiter))},
                     {"because", r.because},
                     {"launches", to_json(r.fills)}});
  Json warnings = Json::array();
  if (const std::string warning = reference_warning(p); !warning.empty()) warnings.push_back(warning);
  return {{"model", p.model},
          {"warnings", warnings},
          {"latency_us", to_json(p.latency_us)},
          {"steps_us", p.steps_us},
          {"gaps_us", p.gaps_us},
          {"unattributed", p.unattributed()},
          {"arena_bytes", p.footprint.arena},
          {"weight_bytes", p.footprint.weights},
          {"peak_bytes", p.peak_bytes},
          {"peak_step", p.peak_step},
          {"peak_host_bytes", p.peak_host_bytes},
          {"bandwidth_bytes_per_s", p.roof.bytes_per_s},
          {"roof", to_json(p.roof)},
          {"limits_from", p.limits_from},
          {"advice", to_json(advice_table(p))},
          {"other_work", to_json(p.others)},
          {"steps", steps},
          {"nodes", to_json(node_table(p))},
          {"inside", to_json(inner_table(p))},
          {"scopes", to_json(scope_table(p))},
          {"memory", to_json(memory_table(p))},
          {"copies", to_json(copy_table(p))},
          {"host_latency_us", p.host_latency_us.count > 0 ? to_json(p.host_latency_us) : Json(nullptr)}};
}

Json to_json(const BuildInfo& b) {
  Json stages = Json::object();
  for (const BuildStage& s : b.stages) stages[s.name] = s.seconds;
  Json o = {
      {"tuning_level", b.tuning_level}, {"problems", b.problems}, {"measured", b.measured},     {"cached", b.cached},
      {"tuning_s", b.tuning_s},         {"stages_s", stages},     {"under_load", b.under_load}, {"out_of_time", b.out_of_time}};
  if (const ClocksSeen& c = b.clocks; c.highest_mhz > 0)
    o["clocks_mhz"] = {{"lowest", c.lowest_mhz}, {"highest", c.highest_mhz}, {"most", c.most_mhz}, {"slowed_by", c.slowed_by}};
  return o;
}

Json to_json(const profile::Side& s) {
  return {{"name", s.name},
          {"ms", to_json(s.ms)},
          {"samples_ms", s.samples_ms},
          {"build_s", s.build_s},
          {"build", to_json(s.build)},
          {"host_bytes", s.host_bytes},
          {"device_bytes", s.device_bytes}};
}

Json to_json(const profile::BenchResult& b) {
  return {{"before", to_json(b.before)},     {"after", to_json(b.after)},
          {"ratio", b.ratio.value},          {"ratio_low", b.ratio.low},
          {"ratio_high", b.ratio.high},      {"speedup", b.speedup()},
          {"speedup_low", 1 / b.ratio.high}, {"speedup_high", 1 / b.ratio.low},
          {"faster", b.ratio.faster()},      {"verdict", verdict(b)}};
}

Json facts(const std::vector<Fact>& list) {
  Json o = Json::object();
  for (const Fact& f : list) o[f.key] = to_json(f.value, Unit::text);
  return o;
}

/// The text that the page shows, with the number that it sorts by, or with the whole of a list.
Json for_page(const Cell& c, Unit unit) {
  if (c.has_number()) return Json::array({format(c, unit), number(c.number)});
  if (!c.full.empty()) return {{"text", c.text}, {"full", c.full}};
  return c.text;
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

}  // namespace

std::string table_json(const std::vector<Table>& tables) {
  Json o = Json::object();
  for (const Table& t : tables) o[t.key] = to_json(t);
  return o.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json(const Report& r) {
  Json o = {{"format", "smelt.report"},
            {"version", 2},
            {"title", r.title},
            {"machine", facts(r.machine)},
            {"versions", facts(r.versions)}};
  if (r.before) o["before"] = to_json(*r.before);
  if (r.after) o["after"] = to_json(*r.after);
  if (r.bench) o["bench"] = to_json(*r.bench);
  if (!r.differences.empty()) o["errors"] = to_json(difference_table(r.differences));
  if (r.before && r.after) o["groups"] = to_json(group_table(*r.before, *r.after));
  if (r.fused) o["fused"] = to_json(*r.fused);
  if (!r.explained.ledger.empty()) {
    o["rewrites"] = to_json(ledger_summary(r.explained));
    o["forms"] = to_json(form_table(r.explained));
    o["ledger"] = to_json(ledger_table(r.explained));
  }
  return o.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
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

std::string page_data(const Report& r) {
  Json o = {{"title", r.title}, {"machine", Json::array()}, {"versions", Json::array()}, {"drawing_note", r.drawing_note}};
  for (const Fact& f : r.machine) o["machine"].push_back({f.title, format(f.value, Unit::text)});
  for (const Fact& f : r.versions) o["versions"].push_back({f.title, format(f.value, Unit::text)});
  const auto side = [](const profile::Profile& p) {
    Json s = {{"latency", format(p.latency_us.median, Unit::us)},
              {"advice", for_page(advice_table(p))},
              {"roofline", roofline(p)},
              {"others", others_text(p)},
              {"steps", for_page(step_table(p))},
              {"scopes", for_page(scope_table(p))},
              {"memory", for_page(memory_table(p))},
              {"held", held_over_time(p)}};
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
  if (!r.differences.empty()) o["errors"] = for_page(difference_table(r.differences));
  if (r.before && r.after)
    if (const Table groups = group_table(*r.before, *r.after); !groups.rows.empty()) o["groups"] = for_page(groups);
  if (r.fused && !r.fused->rows.empty()) o["fused"] = for_page(*r.fused);
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

std::string chrome_trace(const profile::Profile& p) {
  Json events = Json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", "smelt " + p.model}}}});
  const auto name_thread = [&](int thread, const char* name) {
    events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  name_thread(1, "run");
  if (!p.host_run.copies.empty()) name_thread(2, "copies");
  const std::vector<StepTime>& timeline = p.host_run.copies.empty() ? p.timeline : p.host_run.steps;

  // A module's slice spans its consecutive steps and ends when a step outside of it begins.
  struct Open {
    std::string path;
    double begin;
  };
  std::vector<Open> open;
  double last_end = 0;
  const auto close_to = [&](size_t depth) {
    while (open.size() > depth) {
      events.push_back({{"name", open.back().path},
                        {"cat", "module"},
                        {"ph", "X"},
                        {"pid", 1},
                        {"tid", 1},
                        {"ts", open.back().begin},
                        {"dur", last_end - open.back().begin}});
      open.pop_back();
    }
  };
  for (size_t i = 0; i < p.steps.size() && i < timeline.size(); ++i) {
    const StepInfo& s = p.steps[i].step;
    const double begin = static_cast<double>(timeline[i].begin_ns) / 1e3, end = static_cast<double>(timeline[i].end_ns) / 1e3;
    std::vector<std::string> scope;
    if (!s.scopes.empty())
      for (const std::string& part : s.scopes.front())
        if (!part.empty()) scope.push_back(part);
    size_t same = 0;
    while (same < open.size() && same < scope.size() && open[same].path == scope[same]) ++same;
    close_to(same);
    for (size_t d = same; d < scope.size(); ++d) open.push_back({scope[d], begin});
    events.push_back(
        {{"name", s.name},
         {"cat", "step"},
         {"ph", "X"},
         {"pid", 1},
         {"tid", 1},
         {"ts", begin},
         {"dur", end - begin},
         {"args",
          {{"op", s.op}, {"problem", s.problem}, {"tactic", s.tactic}, {"sources", s.sources}, {"outputs", s.output_shapes}}}});
    events.push_back(
        {{"name", "memory"},
         {"ph", "C"},
         {"pid", 1},
         {"ts", begin},
         {"args",
          {{"inputs and outputs", s.memory.bound}, {"activations", s.memory.activations}, {"workspace", s.memory.workspace}}}});
    last_end = end;
  }
  close_to(0);
  // Tracing makes a graph's launch longer. The trace says so, so that nobody takes that time for the run's.
  int64_t copied_ns = 0;
  for (const CopyTime& c : p.host_run.copies)
    if (!timeline.empty() && c.end_ns <= timeline[0].begin_ns) copied_ns = std::max(copied_ns, c.end_ns);
  if (copied_ns > 0)
    events.push_back({{"name", "launching, longer while it is traced"},
                      {"cat", "launch"},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 2},
                      {"ts", static_cast<double>(copied_ns) / 1e3},
                      {"dur", static_cast<double>(timeline[0].begin_ns - copied_ns) / 1e3}});
  for (const CopyTime& c : p.host_run.copies)
    events.push_back({{"name", c.name.empty() ? "copy" : c.name},
                      {"cat", "copy"},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 2},
                      {"ts", static_cast<double>(c.begin_ns) / 1e3},
                      {"dur", static_cast<double>(c.end_ns - c.begin_ns) / 1e3},
                      {"args", {{"way", std::string(smelt::name(c.way))}, {"bytes", c.bytes}}}});
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smelt::report
