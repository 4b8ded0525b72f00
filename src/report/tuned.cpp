#include "report/tuned.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "import/import.h"
#include "ops/core/cost.h"
#include "ops/core/expand.h"
#include "ops/cpu/parallel.h"
#include "ops/cuda/gpu.h"
#include "plan/machine.h"
#include "plan/planner.h"
#include "plan/prepare_candidates.h"
#include "report/subject.h"
#include "run/platform.h"
#include "tune/product_text.h"

namespace smelt::report {
namespace {

bool is_product(const ops::BoundNode& b) {
  const Node& n = *b.node;
  return n.is("MatMul") || n.is("Gemm") || n.is("MatMul", smelt_domain) || n.is("QLinearMatMul", smelt_domain) ||
         n.is("QLinearMatMul") || n.is("MatMulInteger");
}

/// Measures one after the other, with one tuner.
class Bench {
 public:
  Bench(const Options& options, std::function<void(const std::string&)> note)
      : platform_(run::platform_for(options, {})), roof_(known_roof(options)), note_(std::move(note)) {
    platform_.context->tuner.race_all_at_once();
  }

  TunedProduct measure(const std::string& name, const ops::BoundNode& node) {
    tune::Tuner& tuner = platform_.context->tuner;
    const ops::Threads threads(platform_.context->team);
    TunedProduct p;
    p.name = name;
    const ops::Offer offer = ops::offer(node, tuner.machine());
    p.problem = offer.problem;
    if (note_) note_(name);
    if (tuner.machine().gpu) plan::measure_in_stages(std::array{plan::RacedProblem{&node, &offer}}, *platform_.context);
    const double us = tuner.time_us(node, offer);  // where one candidate fails, the others are measured without it
    const tune::Choice choice = tuner.choose(node, offer);
    p.timings = choice.timings;
    if (p.timings.empty()) {  // the only candidate
      const ops::Candidate& only = offer.candidates[choice.candidate];
      p.timings.push_back({only.tactic, only.config, us, us, us, us, us, 1});
    }
    std::ranges::stable_sort(p.timings, {}, &tune::Timing::min);
    p.tactic = offer.candidates[choice.candidate].tactic;
    p.config = offer.candidates[choice.candidate].config;
    for (const tune::NotChosen& o : choice.others) {
      const auto same = [&](const tune::Timing& t) { return t.tactic == o.tactic && t.config == o.config; };
      if (std::ranges::none_of(p.timings, same)) p.apart.push_back(o);
    }
    const ops::Cost cost = ops::cost(node);
    p.bytes = static_cast<double>(cost.bytes);
    p.flops = static_cast<double>(cost.flops);
    p.type = node.inputs[0].type;
    p.floor_us = roof_.floor_us(p.bytes, p.flops, p.type);
    const Shape& a = node.inputs[0].shape;
    if (!is_product(node)) {
      p.rows = "images", p.m = a[0], p.n = node.outputs[0].shape[1];
      p.k = p.n == 0 ? 0 : elements(node.inputs[1].shape) / p.n;
      return p;
    }
    p.n = node.outputs[0].shape.back();
    p.k = elements(a) == 0 ? 0 : node.node->get_int("transA", 0) ? a[a.size() - 2] : a.back();
    p.m = p.k == 0 ? 0 : elements(a) / p.k;
    return p;
  }

  plan::Context& context() { return *platform_.context; }
  std::shared_ptr<plan::Context> shared_context() { return platform_.context; }

 private:
  run::Platform platform_;
  profile::Roof roof_;
  std::function<void(const std::string&)> note_;
};

void add_products_of(const std::string& path, Bench& bench, std::vector<TunedProduct>& all) {
  plan::Context& context = bench.context();
  ImportOptions wanted;
  wanted.shapes = context.options.shapes;
  wanted.expand = ops::expand;
  wanted.supported = [](std::string_view domain, std::string_view op) { return ops::find(op, domain) != nullptr; };
  Graph g = import_model(path, wanted);
  if (context.options.optimize) fuse::run(g, plan::fuse_options(context.options));
  const plan::Planner planner(std::move(g), bench.shared_context());
  const auto shapes = planner.fixed_shapes();
  if (!shapes)
    throw Error(fmt::format("{}: its inputs have symbolic extents", path), "Give them: --shapes x:1x128", ExitCode::usage);
  const plan::PlannedSegment planned = planner.first(*shapes, plan::Measure::no);
  std::set<std::string> seen;
  for (const plan::Step& step : planned.segment.steps) {
    if (step.kind != plan::StepKind::kernel || step.on_host) continue;
    const ops::BoundNode node = plan::bound_node(planned.segment, step, &context.weights);
    if (is_product(node) && seen.insert(step.problem).second) all.push_back(bench.measure(step.node->name, node));
  }
  if (seen.empty()) fail_usage("{} has no matrix product that a kernel runs", path);
}

constexpr std::string_view vendors[] = {"onednn", "cublaslt"};

}  // namespace

const tune::Timing* TunedProduct::vendor() const {
  const auto at = std::ranges::find_if(timings, [](const tune::Timing& t) { return std::ranges::count(vendors, t.tactic) > 0; });
  return at == timings.end() ? nullptr : &*at;
}

std::string vendor_name(const Options& options) { return plan::on_gpu(options) ? "cuBLASLt" : "oneDNN"; }

std::vector<TunedProduct> tune_products(const std::vector<std::string>& problems, const std::string& from, const Options& options,
                                        const std::function<void(const std::string&)>& note) {
  std::vector<tune::ProblemText> texts;
  for (const std::string& text : problems) texts.push_back(tune::parse_problem(text));  // all of them, before any is measured
  Bench bench(options, note);
  std::vector<TunedProduct> all;
  for (const tune::ProblemText& text : texts) all.push_back(bench.measure(text.name, text.node.bound));
  if (!from.empty()) add_products_of(from, bench, all);
  return all;
}

std::vector<TunedProduct> tune_over_rows(const std::string& problem, const std::vector<int64_t>& rows, const Options& options,
                                         const std::function<void(const std::string&)>& note) {
  Bench bench(options, note);
  std::vector<TunedProduct> all;
  for (const int64_t m : rows) {
    const tune::ProblemText text = tune::parse_problem(problem, m);
    all.push_back(bench.measure(text.name, text.node.bound));
  }
  return all;
}

Table tuned_table(const std::vector<TunedProduct>& products, bool all, const std::string& vendor) {
  Table t{.key = "candidates",
          .title = all || products.empty() ? "Candidates" : products[0].name,
          .columns = {{"product", "product", Unit::text, !all},
                      {"problem", "problem", Unit::text, true},
                      {"rank", "rank", Unit::count},
                      {"tactic", "tactic"},
                      {"config", "config"},
                      {"us", "fastest", Unit::us},
                      {"median_us", "median", Unit::us},
                      {"iqr_us", "± IQR", Unit::us},
                      {"of_floor", "of floor", Unit::percent},
                      {"of_vendor", "of " + vendor, Unit::ratio},
                      {"floor_us", "floor", Unit::us, true},
                      {"flops_per_s", "rate", Unit::flops_per_s},
                      {"under_load", "under load", Unit::text, true},
                      {"chosen", "chosen"}}};
  for (const TunedProduct& p : products) {
    const tune::Timing* reference = p.vendor();
    int rank = 0;
    for (const tune::Timing& x : p.timings) {
      if (!x.runs()) continue;
      const bool chosen = x.tactic == p.tactic && x.config == p.config;
      const Cell of_floor = positive(p.floor_us / x.min);
      const Cell of_vendor = reference && reference->min > 0 ? Cell(x.min / reference->min) : Cell("");
      t.rows.push_back({p.name, p.problem, ++rank, x.tactic, x.config, x.min, x.median, x.q3 - x.q1, of_floor, of_vendor,
                        positive(p.floor_us), p.flops / x.min * 1e6, x.under_load > 0, chosen});
    }
  }
  if (!products.empty() && products[0].floor_us == 0)
    t.note = "of floor: the machine's ceilings were not measured (smelt devices --measure)";
  else if (products.size() == 1)
    t.note = fmt::format("floor {}: the larger of its bytes and its operations at the machine's ceilings",
                         format(products[0].floor_us, Unit::us));
  return t;
}

Table not_measured_table(const std::vector<TunedProduct>& products) {
  Table t{.key = "not_measured",
          .title = "Not measured",
          .columns = {{"product", "product"},
                      {"tactic", "tactic"},
                      {"config", "config"},
                      {"reason", "reason"},
                      {"code", "code", Unit::text, true}}};
  for (const TunedProduct& p : products)
    for (const tune::NotChosen& o : p.apart) t.rows.push_back({p.name, o.tactic, o.config, o.reason, o.code});
  return t;
}

void write_tuning_plot(const std::string& path, const std::vector<std::string>& problems,
                       const std::vector<TunedProduct>& products, const Options& options,
                       const std::function<void(const std::string&)>& note) {
  const std::string first = !problems.empty()
                                ? problems.front()
                                : tune::print({.type = products.at(0).type, .m = 1, .n = products[0].n, .k = products[0].k});
  std::vector<int64_t> rows{1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  if (first.starts_with("conv")) rows.resize(7);
  const std::vector<TunedProduct> over_rows = tune_over_rows(first, rows, options, note);
  write_text(path, tuning_svg(over_rows, products, known_roof(options)));
}

std::string csv(const Table& table) {
  const auto quoted = [](const std::string& text) {
    if (text.find_first_of(",\"\n") == text.npos) return text;
    std::string q = "\"";
    for (char c : text) q += c == '"' ? std::string("\"\"") : std::string(1, c);
    return q + "\"";
  };
  std::string lines;
  for (const Column& c : table.columns) lines += (lines.empty() ? "" : ",") + c.key;
  lines += '\n';
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) lines += ',';
      lines += row[i].has_number() ? fmt::format("{:.9g}", row[i].number) : quoted(row[i].text);
    }
    lines += '\n';
  }
  return lines;
}

}  // namespace smelt::report
