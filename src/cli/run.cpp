#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/npy.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "ops/cpu/parallel.h"
#include "ops/f64/evaluate.h"
#include "smelt/sequences.h"

namespace smelt::cli {
namespace {

struct Range {
  double min = std::numeric_limits<double>::infinity(), sum = 0, max = -std::numeric_limits<double>::infinity();
};

Range range_of(const Tensor& x, int64_t begin, int64_t end) {
  Range r;
  const std::byte* first = static_cast<const std::byte*>(x.raw()) + bytes(x.type(), begin);
  for (double v : Tensor::borrow(x.type(), {end - begin}, const_cast<std::byte*>(first)).to_doubles()) {
    r.min = std::min(r.min, v);
    r.max = std::max(r.max, v);
    r.sum += v;
  }
  return r;
}

/// The range of a tensor of numbers that is not empty. It works in blocks: a language model's logits take a gigabyte as doubles.
Range range_of(const Tensor& x) {
  constexpr int64_t block = 1 << 13;  // small enough to be allocated without a mapping of its own
  std::vector<Range> blocks(static_cast<size_t>((x.size() + block - 1) / block));
  const auto fill = [&](int64_t i) {
    blocks[static_cast<size_t>(i)] = range_of(x, i * block, std::min((i + 1) * block, x.size()));
  };
  fill(0);  // throws here for a type that is not real
  ops::parallel_dynamic(threads::team_threads(), std::ssize(blocks) - 1, [&](int64_t i, int) { fill(i + 1); });
  Range r;
  for (const Range& b : blocks) r = {std::min(r.min, b.min), r.sum + b.sum, std::max(r.max, b.max)};
  return r;
}

// One line for each tensor, enough to judge a result at a glance.
report::Table tensor_table(const std::map<std::string, Tensor>& tensors) {
  report::Table t{.key = "outputs",
                  .title = "Outputs",
                  .columns = {{"name", "name"},
                              {"type", "type"},
                              {"shape", "shape"},
                              {"min", "min", report::Unit::value},
                              {"mean", "mean", report::Unit::value},
                              {"max", "max", report::Unit::value}}};
  for (const auto& [name, x] : tensors) {
    const bool is_ordered = x.type() != DType::string && x.type() != DType::c64 && x.type() != DType::c128;
    if (!is_ordered || x.size() == 0) {
      t.rows.push_back({name, smelt::name(x.type()), report::shape_cell(x.shape()), "", "", ""});
      continue;
    }
    const Range r = range_of(x);
    t.rows.push_back(
        {name, smelt::name(x.type()), report::shape_cell(x.shape()), r.min, r.sum / static_cast<double>(x.size()), r.max});
  }
  return t;
}

// Names hold slashes and colons; a file name keeps letters, digits, '.', '_' and '-'.
std::string file_name(const std::string& tensor) {
  std::string out;
  for (char c : tensor) out += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-' ? c : '_';
  return out;
}

void write_outputs(const std::string& target, const std::map<std::string, Tensor>& tensors) {
  if (target.ends_with(".npz")) return write_npz(target, tensors);
  // NAME:file.npy or NAME:file.raw picks one tensor; anything else is a folder that gets one .npy a tensor.
  const size_t colon = target.rfind(':');
  if (colon != std::string::npos && tensors.contains(target.substr(0, colon))) {
    const Tensor& t = tensors.at(target.substr(0, colon));
    const std::string path = target.substr(colon + 1);
    if (path.ends_with(".npy")) return write_npy(path, t);
    AtomicFile file(path);
    file.write(t.raw(), t.nbytes());
    return file.commit();
  }
  if (colon != std::string::npos) {
    std::string known;
    for (const auto& [name, t] : tensors) known += (known.empty() ? "" : ", ") + name;
    fail_usage("--outputs: the model has no output '{}'; its outputs are {}", target.substr(0, colon), known);
  }
  if (target.ends_with(".npy")) {
    if (tensors.size() != 1)
      fail_usage("--outputs={}: the model has {} outputs; expected NAME:{}, a .npz or a folder", target, tensors.size(), target);
    return write_npy(target, tensors.begin()->second);
  }
  make_folders(target);
  std::set<std::string> taken;
  for (const auto& [name, t] : tensors) {
    std::string file = file_name(name);
    for (int i = 1; !taken.insert(file).second; ++i) file = file_name(name) + "_" + std::to_string(i);
    write_npy(std::filesystem::path(target) / (file + ".npy"), t);
  }
}

std::map<std::string, Tensor> named(const Plan& plan, std::span<const Tensor> outputs) {
  std::map<std::string, Tensor> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) tensors[plan.outputs()[i].name] = to_host(outputs[i]);
  for (const SequenceOutput& s : sequence_outputs(plan)) {
    if (!s.stacked) continue;  // its tensors are outputs
    const std::vector<Tensor> parts = unstacked(tensors.extract(plan.outputs()[s.first].name).mapped());
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string name = fmt::format("{}_{}", s.name, i);
      while (tensors.contains(name)) name += "_";
      tensors.emplace(name, parts[i]);
    }
  }
  return tensors;
}

/// Evaluates the imported graph in float64, without a plan, rewriting or a plan's kernels.
std::map<std::string, Tensor> run_in_f64(const report::Subject& s) {
  Options options = s.options;
  options.optimize = false;
  options.tuning_level = 0;
  options.device = "cpu";
  options.precision.clear();
  const auto plan = Plan::build(s.path, options);
  return named(*plan, ops::evaluate_f64(plan->graph(), report::inputs_for(*plan, s), options.threads));
}

}  // namespace

Action add_run(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::vector<std::string> outputs;
    bool unfused = false, float64 = false;
  };
  auto a = std::make_shared<Arguments>();
  add_model_options(app, *a);
  add_input_options(app, *a);
  app.add_option("--outputs", a->outputs, "out.npz, file.npy of the only output, NAME:file.npy, NAME:file.raw, or a folder")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--unfused", a->unfused, "Run the model as it stands, operator by operator");
  app.add_flag("--float64", a->float64,
               "Evaluate the model as it stands in float64, slowly: the oracle that errors are measured against")
      ->excludes("--unfused");
  return [a] {
    report::Prepared p;
    stage(a->float64 ? "evaluating in float64" : "building the plan");
    std::map<std::string, Tensor> tensors;
    if (a->float64) {
      tensors = run_in_f64(a->subject());
    } else {
      p = report::prepare(a->subject(), !a->unfused);
      stage("running");
      p.execution->run();
      tensors = named(*p.plan, p.execution->outputs());
    }
    for (const std::string& target : a->outputs) write_outputs(target, tensors);
    std::vector<report::Table> tables{tensor_table(tensors)};
    if (a->as_json && p.plan) tables.push_back(report::build_table(*p.plan));
    if (a->as_json)
      print_line(report::document_json("smelt.run", tables));
    else
      print_tables(tables);
    return 0;
  };
}

}  // namespace smelt::cli
