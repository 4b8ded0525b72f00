#include "report/subject.h"

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "import/import.h"
#include "ops/op.h"
#include "profile/inputs.h"
#include "profile/roof.h"
#include "report/facts.h"

namespace smelt::report {
namespace {

std::map<std::string, double> median_us(const profile::Profile& p) {
  std::map<std::string, double> us;
  for (const profile::StepRow& r : p.steps) us[r.step.name] += r.us.median;
  return us;
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

}  // namespace

std::vector<Tensor> inputs_for(const Plan& plan, const Subject& s) {
  std::map<std::string, Shape> shapes = s.shapes;
  for (const auto& [name, t] : s.feeds) shapes[name] = t.shape();
  std::vector<Tensor> inputs = profile::load_inputs(plan, s.input_files, shapes, s.seed);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const auto at = s.feeds.find(plan.inputs()[i].name); at != s.feeds.end()) inputs[i] = at->second;
  return inputs;
}

Prepared prepare(const Subject& s, bool optimize, const std::vector<Tensor>* inputs) {
  Prepared p;
  const auto begin = std::chrono::steady_clock::now();
  Options options = s.options;
  options.optimize = optimize;
  p.plan = Plan::build(s.path, options);
  p.inputs = inputs ? *inputs : inputs_for(*p.plan, s);
  p.execution = p.plan->execution();
  p.execution->bind(p.inputs);
  p.build_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return p;
}

fuse::Ledger ledger_of(const Subject& s) {
  ImportOptions import;
  import.structure_only = true;
  import.shapes = s.shapes;
  import.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
  Graph g = import_model(s.path, import);
  fuse::Options options;
  options.skip = s.options.skip;
  return fuse::run(g, options);
}

profile::Roof known_roof(const Options& options) {
  const auto dir = options.cache_dir.empty() ? cache_dir() : std::filesystem::path(options.cache_dir);
  const auto ceilings = profile::load_ceilings(dir, options.threads);
  return ceilings ? profile::roof_of(*ceilings) : profile::Roof{};
}

Comparison compare_speed(const Subject& s, const std::string& against, const profile::BenchOptions& options) {
  Comparison c;
  c.after = prepare(s, true);
  Subject other = s;
  if (!against.empty()) other.path = against;
  c.before = prepare(other, !against.empty(), &c.after.inputs);
  c.bench = profile::bench(*c.before.execution, *c.after.execution, options);
  c.bench.before.name = against.empty() ? "unfused" : file_name(against);
  c.bench.after.name = against.empty() ? "optimised" : file_name(s.path);
  for (auto [side, prepared] : {std::pair{&c.bench.before, &c.before}, std::pair{&c.bench.after, &c.after}}) {
    side->build_s = prepared->build_s;
    side->host_bytes = prepared->plan_bytes();
  }
  return c;
}

Report bare_report(const Subject& s) {
  Report r;
  r.title = file_name(s.path);
  r.machine = machine_facts(s.options.threads);
  r.versions = version_facts();
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

Report full_report(const Subject& s, Comparison& c) {
  Report r = bare_report(s);
  const profile::Roof roof = known_roof(s.options);
  const profile::ProfileOptions few{.iterations = 10, .warmup = 1, .max_seconds = 10};
  r.before = profile::profile(*c.before.plan, *c.before.execution, few, roof);
  r.after = profile::profile(*c.after.plan, *c.after.execution, few, roof);
  c.before.execution->run();
  c.after.execution->run();
  for (size_t i = 0; i < c.after.plan->outputs().size(); ++i)
    r.differences.push_back(profile::difference(c.after.plan->outputs()[i].name, c.after.execution->outputs()[i], c.before.execution->outputs()[i]));
  r.bench = c.bench;
  r.ledger = ledger_of(s);
  add_drawings(r, c.before.plan.get(), c.after.plan.get());
  return r;
}

}  // namespace smelt::report
