#include <cmath>
#include <nlohmann/json.hpp>

#include "report/report.h"

namespace smelt::report {
namespace {

using Json = nlohmann::ordered_json;

/// A number (null where a column of numbers has none, and where it is not finite), true or false, an array, or text.
Json to_json(const Cell& c, Unit column) {
  const Unit unit = c.unit.value_or(column);
  const bool few = unit == Unit::count && c.number < 10;  // half a call, a request in six seconds: no whole number tells it
  const bool whole = c.whole || (unit == Unit::count && !few) || unit == Unit::bytes || unit == Unit::flops;
  switch (c.kind) {
    case Cell::Kind::number:
      return (whole || (few && c.number == std::floor(c.number))) && std::isfinite(c.number) ? Json(std::llround(c.number))
                                                                                             : Json(c.number);
    case Cell::Kind::flag: return c.number != 0;
    case Cell::Kind::list: {
      Json list = Json::array();
      for (const Cell& part : c.list) list.push_back(to_json(part, Unit::text));
      return list;
    }
    case Cell::Kind::text: break;
  }
  return unit != Unit::text && (c.text.empty() || c.text == "–") ? Json(nullptr)
                                                                 : Json(c.text);  // "–": readers see that none is meant
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
  return {{"mean", s.mean}, {"median", s.median}, {"p90", s.p90}, {"p99", s.p99},
          {"min", s.min},   {"max", s.max},       {"iqr", s.iqr}, {"count", s.count}};
}

Json to_json(const profile::Roof& r) {
  Json rates = Json::object();
  for (const auto& [type, rate] : r.flops_per_s) rates[std::string(name(type))] = rate;
  return {{"bytes_per_s", r.bytes_per_s}, {"launch_us", r.launch_us}, {"flops_per_s", rates}, {"under_load", r.under_load}};
}

Json to_json(const profile::OtherWork& o) {
  Json processes = Json::array();
  for (const profile::GpuUse::Process& p : o.gpu.processes)
    processes.push_back({{"pid", p.pid},
                         {"busy_percent", p.busy_percent},
                         {"memory_bytes", p.memory_bytes > 0 ? Json(p.memory_bytes) : Json(nullptr)}});
  return {{"runs", o.runs},
          {"disturbed", o.disturbed},
          {"waited_us", o.waited_us},
          {"stolen_us", o.stolen_us},
          {"throttled_us", o.throttled_us},
          {"preempted", o.preempted},
          {"cost_us", o.cost_us},
          {"cost_measured", o.cost_measured},
          {"gpu", {{"busy_percent", o.gpu.busy_percent}, {"processes", processes}}}};
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

Json to_json(const profile::Counted& c) {
  const auto known = [](double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); };
  Json stalls = Json::array();
  for (const auto& [reason, warps] : c.stalls) stalls.push_back({{"reason", reason}, {"warps", known(warps)}});
  return {{"us", known(c.us)},
          {"compute", known(c.compute)},
          {"dram", known(c.dram)},
          {"l2", known(c.l2)},
          {"l1", known(c.l1)},
          {"issue", known(c.issue)},
          {"eligible_warps", known(c.eligible)},
          {"occupancy", known(c.occupancy)},
          {"threads_per_instruction", known(c.threads)},
          {"dram_bytes", known(c.dram_bytes)},
          {"l2_bytes", known(c.l2_bytes)},
          {"stalls", stalls}};
}

Json to_json(const profile::Profile& p) {
  Json steps = Json::array();
  const auto memory = [&p](const profile::StepRow& r) -> Json {
    return {{"bound_bytes", r.step.memory.bound},
            {"activation_bytes", r.step.memory.activations},
            {"workspace_bytes", r.step.memory.workspace},
            {"held_bytes", p.held(r)}};
  };
  const auto counted = [](double v) { return v > 0 ? Json(v) : Json(nullptr); };
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const profile::StepRow& r = p.steps[i];
    const auto in_run = [&](int64_t StepTime::*at) {
      return i < p.timeline.size() ? Json(static_cast<double>(p.timeline[i].*at) / 1e3) : Json(nullptr);
    };
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
                     {"begin_us", in_run(&StepTime::begin_ns)},
                     {"end_us", in_run(&StepTime::end_ns)},
                     {"own_us", r.own_us()},
                     {"tuned_us", r.step.measured_us > 0 ? Json(r.step.measured_us) : Json()},
                     {"share", r.share},
                     {"compute_us", r.compute_us},
                     {"memory_us", r.memory_us},
                     {"flops_per_byte", r.intensity()},
                     {"roof_share", r.roof_share},
                     {"at_stake_us", r.at_stake_us},
                     {"limiter", std::string(profile::name(r.limiter))},
                     {"because", r.because},
                     {"instructions_per_cycle", counted(r.instructions_per_cycle)},
                     {"missed_bytes_per_s", counted(r.missed_bytes_per_s)},
                     {"launches", to_json(r.fills)},
                     {"counted", r.counted ? to_json(*r.counted) : Json(nullptr)}});
  }
  Json warnings = Json::array();
  if (const std::string warning = reference_warning(p); !warning.empty()) warnings.push_back(warning);
  return {{"model", p.model},
          {"warnings", warnings},
          {"latency_us", to_json(p.latency_us)},
          {"steps_us", p.steps_us},
          {"gaps_us", p.gaps_us},
          {"clock_us", p.clock_us},
          {"unattributed", p.unattributed()},
          {"arena_bytes", p.footprint.arena},
          {"weight_bytes", p.footprint.weights},
          {"peak_bytes", p.peak_bytes},
          {"peak_step", p.peak_step},
          {"peak_host_bytes", p.peak_host_bytes},
          {"bandwidth_bytes_per_s", p.roof.bytes_per_s},
          {"roof", to_json(p.roof)},
          {"limits_from", p.limits_from},
          {"not_counted", p.not_counted},
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
  Json o = {{"tuning_level", b.tuning_level},
            {"problems", b.problems},
            {"measured", b.measured},
            {"cached", b.cached},
            {"tuning_s", b.tuning_s},
            {"stages_s", stages},
            {"under_load", b.under_load},
            {"out_of_time", b.out_of_time},
            {"reused", b.reused},
            {"narrowed", b.narrowed}};
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

Json tables_in(Json o, const std::vector<Table>& tables) {
  for (const Table& t : tables) o[t.key] = to_json(t);
  return o;
}

std::string text_of(const Json& o) { return o.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json facts(const std::vector<Fact>& list) {
  Json o = Json::object();
  for (const Fact& f : list) o[f.key] = to_json(f.value, Unit::text);
  return o;
}

}  // namespace

std::string table_json(const std::vector<Table>& tables) { return text_of(tables_in(Json::object(), tables)); }

std::string document_json(std::string_view format, const std::vector<Table>& tables) {
  return text_of(tables_in({{"format", format}, {"version", 1}}, tables));
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
  if (r.before && r.after) {
    o["groups"] = to_json(group_table(*r.before, *r.after));
    o["waterfall"] = to_json(waterfall_table(*r.before, *r.after));
  }
  if (r.fused) o["fused"] = to_json(*r.fused);
  if (r.slower) o["slower_nodes"] = to_json(*r.slower);
  if (!r.explained.ledger.empty()) {
    o["rewrites"] = to_json(ledger_summary(r.explained));
    o["forms"] = to_json(form_table(r.explained));
    o["ledger"] = to_json(ledger_table(r.explained));
    o["estimated_at"] = {{"bytes_per_s", r.explained.rates.bytes_per_s},
                         {"launch_us", r.explained.rates.launch_us},
                         {"measured", r.explained.measured}};
  }
  return text_of(o);
}

}  // namespace smelt::report
