#include "report/subject.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "device/cuda/device.h"
#include "fuse/precision.h"
#include "graph/graph.h"
#include "import/import.h"
#include "ops/core/expand.h"
#include "ops/core/operator.h"
#include "plan/context.h"
#include "profile/advice.h"
#include "profile/inputs.h"
#include "profile/roof.h"
#include "report/facts.h"
#include "report/gpus.h"
#include "report/slower_nodes.h"

namespace smelt::report {
namespace {

std::map<std::string, double> median_us(const profile::Profile& p) {
  std::map<std::string, double> us;
  for (const profile::StepRow& r : p.steps) us[r.step.name] += r.us.median;
  return us;
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// The model's own graph, before any rewrite.
ImportOptions as_it_stands(const Subject& s) {
  ImportOptions wanted;
  wanted.shapes = s.shapes;
  wanted.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
  wanted.expand = ops::expand;
  return wanted;
}

std::vector<Tensor> placed(const Prepared& p) {
  std::vector<Tensor> placed;
  for (const Tensor& t : p.inputs) placed.push_back(p.plan->place(t));
  return placed;
}

}  // namespace

std::unique_ptr<Execution> bound_execution(const Prepared& p) {
  auto execution = p.plan->execution();
  execution->bind(placed(p));
  return execution;
}

std::vector<Tensor> inputs_for(const Plan& plan, const Subject& s) {
  return profile::load_inputs(plan, s.input_files, s.shapes, s.feeds, s.seed);
}

std::vector<Tensor> in_order_of(const Plan& other, const Prepared& reference) {
  const auto &ours = reference.plan->inputs(), &theirs = other.inputs();
  const std::string &path = reference.plan->graph().model.path, &other_path = other.graph().model.path;
  if (ours.size() != theirs.size()) fail_usage("{} has {} inputs, {} has {}", path, ours.size(), other_path, theirs.size());
  std::vector<Tensor> same;
  for (const TensorInfo& i : theirs) {
    const auto at = std::ranges::find(ours, i.name, &TensorInfo::name);
    if (at == ours.end()) fail_usage("{} has an input '{}' that {} has not", other_path, i.name, path);
    same.push_back(reference.inputs[static_cast<size_t>(at - ours.begin())]);
  }
  return same;
}

Prepared prepare(const Subject& s, bool optimize, const Prepared* same_inputs) {
  Prepared p;
  const auto begin = std::chrono::steady_clock::now();
  Options options = s.options;
  options.optimize = optimize;
  p.plan = Plan::build(s.path, options);
  p.inputs = same_inputs ? in_order_of(*p.plan, *same_inputs) : inputs_for(*p.plan, s);
  p.execution = bound_execution(p);
  p.build_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return p;
}

profile::Profile profile_of(Prepared& p, const profile::ProfileOptions& options, const profile::Roof& roof) {
  profile::Profile result = profile::profile(*p.plan, *p.execution, options, roof);
  if (!p.execution->on_gpu()) return result;
  try {
    const auto host = p.plan->execution();
    host->bind(p.inputs);
    profile::profile_copies(result, *p.execution, *host, options);
    profile::advise_on_copies(result);
  } catch (const Error& e) {  // the device has no room for a second arena
    warn("copies from and to the host's memory were not timed: {}", e.what());
  }
  return result;
}

Tensor output_of(const Prepared& p, const std::string& name) {
  const auto& outputs = p.plan->outputs();
  const auto at = std::find_if(outputs.begin(), outputs.end(), [&](const TensorInfo& o) { return o.name == name; });
  if (at == outputs.end()) fail_usage("{} has no output '{}'", p.plan->graph().model.path, name);
  return to_host(p.execution->outputs()[static_cast<size_t>(at - outputs.begin())]);
}

std::vector<profile::Difference> differences_of(const Prepared& reference, const Prepared& other) {
  std::vector<profile::Difference> differences;
  for (const TensorInfo& o : reference.plan->outputs())
    differences.push_back(profile::difference(o.name, output_of(other, o.name), output_of(reference, o.name)));
  return differences;
}

void add_model_nodes(profile::Profile& p, const Subject& s, const Prepared& prepared) {
  if (std::ranges::none_of(p.steps, [](const profile::StepRow& r) { return r.step.sources.size() > 1; })) return;
  const Graph model = import_model(s.path, as_it_stands(s));
  std::vector<Shape> shapes;
  for (const Tensor& t : prepared.inputs) shapes.push_back(t.shape());
  profile::add_nodes(p, model, shapes);
}

Explained complete(profile::Profile& p, const Subject& s, const Prepared& prepared, bool optimized) {
  Explained e = explain(s);
  if (optimized) add_model_nodes(p, s, prepared);
  add_rewrite_advice(p, e, optimized, optimized ? Reorders{} : reorders_around(p, prepared.plan->graph()));
  return e;
}

Explained explain(const Subject& s) {
  // Rates without measurements: two channels of desktop memory, and a parallel region of a few threads.
  constexpr fuse::Rates usual{.bytes_per_s = 20e9, .launch_us = 2};
  const MemoryScope memory(plan::account_for(s.options));
  ImportOptions wanted = as_it_stands(s);
  wanted.structure_only = true;
  Graph g = import_model(s.path, wanted);
  const profile::Roof roof = known_roof(s.options);
  Explained e{.rates = {roof.bytes_per_s, roof.launch_us}, .measured = roof.bytes_per_s > 0};
  if (!e.measured) e.rates = usual;
  for (const SourceNode& source : g.sources()) e.nodes.push_back(source.name);
  fuse::Options rewriting = plan::fuse_options(s.options);
  rewriting.rates = e.rates;
  const bool quantized = is_quantized(g);
  // In a narrower type nodes have other types, Casts between them, and what was spelled out is one node before that.
  const bool narrower = !s.options.precision.empty();
  if (narrower) e.ledger = fuse::convert_precision(g, s.options.precision, s.options.keep_fp32, {&rewriting, true}).recognised;
  fuse::Ledger fused = fuse::run(g, rewriting);
  e.ledger.insert(e.ledger.end(), std::make_move_iterator(fused.begin()), std::make_move_iterator(fused.end()));
  if (quantized) e.float_nodes = float_nodes(g, e.ledger, e.rates);
  return e;
}

profile::Roof known_roof(const Options& options) {
  const auto gpu = device::cuda::ordinal_of(options.device);
  std::filesystem::path dir;
  try {
    dir = cache_dir(options.cache_dir);
  } catch (const Error&) {  // a folder that cannot be made holds no ceilings
    return {};
  }
  const auto& gpus = device::cuda::devices();
  if (gpu && *gpu >= static_cast<int>(gpus.size())) return {};
  const auto ceilings =
      gpu ? profile::load_gpu_ceilings(dir, gpus[static_cast<size_t>(*gpu)].uuid) : profile::load_ceilings(dir, options.threads);
  return ceilings ? profile::roof_of(*ceilings) : profile::Roof{};
}

Comparison compare_speed(const Subject& s, const std::string& against, const profile::BenchOptions& options) {
  Comparison c;
  c.against = against;
  c.after = prepare(s, true);
  Subject other = s;
  if (!against.empty()) other.path = against;
  c.before = prepare(other, !against.empty(), &c.after);
  // A plan that is built quickly is built anew too, so that its weights lie elsewhere.
  constexpr double no_time_s = 0.1;
  const auto maker = [](const Subject& of, const Prepared& first, bool optimize, const Prepared* inputs) {
    return [&of, &first, optimize, inputs] {
      const auto made = std::make_shared<Prepared>();
      if (first.build_s < no_time_s)
        *made = prepare(of, optimize, inputs);
      else
        made->plan = first.plan, made->inputs = first.inputs, made->execution = bound_execution(*made);
      return std::shared_ptr<Execution>(made, made->execution.get());
    };
  };
  c.bench = profile::bench(maker(other, c.before, !against.empty(), &c.after), maker(s, c.after, true, &c.after), options);
  c.bench.before.name = against.empty() ? "unfused" : file_name(against);
  c.bench.after.name = against.empty() ? "optimised" : file_name(s.path);
  for (auto [side, prepared] : {std::pair{&c.bench.before, &c.before}, std::pair{&c.bench.after, &c.after}}) {
    side->build_s = prepared->build_s;
    side->build = prepared->plan->build_info();
    side->memory_of_plan(prepared->execution->memory(), prepared->execution->on_gpu());
  }
  return c;
}

Report bare_report(const Subject& s) {
  Report r;
  r.title = file_name(s.path);
  r.machine = machine_facts(s.options.threads);
  r.versions = version_facts();
  add_gpu_facts(s.options.device, r.machine, r.versions);
  return r;
}

void add_drawings(Report& r, const Plan* before, const Plan* after) {
  try {
    const auto groups = after ? groups_of(after->graph()) : std::map<std::string, int>{};
    if (before) r.svg_before = draw(before->graph(), r.before ? median_us(*r.before) : std::map<std::string, double>{}, groups);
    if (after) r.svg_after = draw(after->graph(), r.after ? median_us(*r.after) : std::map<std::string, double>{}, groups);
  } catch (const Error& e) {
    r.drawing_note = e.what() + (e.next().empty() ? std::string() : ": " + e.next());
  }
}

Table slower_than(const Subject& s, const Comparison& c, const profile::Profile& before, const profile::Profile& after,
                  const Explained& e) {
  const auto nodes = [&s](const std::string& path) {
    ImportOptions wanted = as_it_stands(s);
    wanted.structure_only = true;
    return named_nodes(import_model(path, wanted));
  };
  const NamedNodes before_nodes = nodes(c.against), after_nodes = nodes(s.path);
  return slower_table(slower_nodes({before, before_nodes}, {after, after_nodes}, e.float_nodes, e.ledger), before, after);
}

std::optional<Table> why_slower(const Subject& s, Comparison& c) {
  if (c.against.empty() || !c.bench.ratio.slower()) return std::nullopt;
  const profile::ProfileOptions some{.iterations = 30, .warmup = 3, .max_seconds = 5};
  const profile::Profile before = profile::profile(*c.before.plan, *c.before.execution, some, {});
  const profile::Profile after = profile::profile(*c.after.plan, *c.after.execution, some, {});
  return slower_than(s, c, before, after, explain(s));
}

Report full_report(const Subject& s, Comparison& c) {
  Report r = bare_report(s);
  const profile::Roof roof = known_roof(s.options);
  const profile::ProfileOptions few{.iterations = 10, .warmup = 1, .max_seconds = 10};
  r.before = profile_of(c.before, few, roof);
  r.after = profile_of(c.after, few, roof);
  c.before.execution->run();
  c.after.execution->run();
  r.differences = differences_of(c.before, c.after);
  r.bench = c.bench;
  r.fused = fused_table(c.after.execution->steps());
  r.explained = complete(*r.after, s, c.after, true);
  if (!c.against.empty()) r.slower = slower_than(s, c, *r.before, *r.after, r.explained);
  add_drawings(r, c.before.plan.get(), c.after.plan.get());
  return r;
}

}  // namespace smelt::report
