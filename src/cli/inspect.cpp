#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "device/cuda/device.h"
#include "graph/graph.h"
#include "import/import.h"
#include "inspect/cubin.h"
#include "inspect/ptx.h"
#include "inspect/sass.h"
#include "plan/carried_choices.h"
#include "plan/embedded_kernels.h"
#include "profile/inputs.h"
#include "report/planned.h"
#include "run/planned.h"

namespace smelt::cli {
namespace {

/// Those that `name` asks for (empty: all), with the launch that was given over their own.
std::vector<report::InspectedKernel> chosen(std::vector<report::InspectedKernel> all, const std::string& name,
                                            const std::string& launch) {
  std::vector<report::InspectedKernel> kernels;
  for (report::InspectedKernel& k : all) {
    if (!name.empty() && !report::is_called(k, name)) continue;
    const int before = k.launch.threads;
    k.launch = inspect::parse_launch(launch, k.launch);
    k.assumed_threads = k.assumed_threads && (before == k.launch.threads && launch.find("threads=") == launch.npos);
    kernels.push_back(std::move(k));
  }
  if (!kernels.empty() || all.empty()) return kernels;
  std::vector<std::string> names;
  for (const report::InspectedKernel& k : all) {
    const std::string& known = k.problem.empty() ? k.kernel.entry : k.problem;
    if (std::ranges::find(names, known) == names.end()) names.push_back(known);
  }
  throw Error(fmt::format("there is no kernel '{}'", name), "There are: " + report::joined(names, 20), ExitCode::usage);
}

std::vector<report::InspectedKernel> kernels_in(const inspect::Image& image) {
  std::vector<report::InspectedKernel> kernels;
  for (const inspect::Kernel& k : image.kernels) kernels.push_back(report::inspected(k));
  return kernels;
}

/// Nothing where the file is neither a cubin nor PTX.
std::optional<inspect::Image> read_image(const std::string& path) {
  // A model may be large: its first bytes say that it is one.
  const std::string head = read_head(path, 65536);
  const bool elf = inspect::is_elf(head);
  if (!head.empty() && !elf && !inspect::is_ptx(head)) return std::nullopt;
  const std::string bytes = read_text(path);
  try {
    if (elf) {
      inspect::Image image = inspect::read_cubin(bytes);
      inspect::add_sass(image, path);
      return image;
    }
    return inspect::read_ptx(bytes);
  } catch (const Error& e) {
    throw Error(path + ": " + e.what(), e.next(), e.code());
  }
}

/// The architecture that a plan was made for: its kernels', or that of the GPU where they were chosen. Empty for a model.
std::string arch_of_plan(const std::string& path) {
  ImportOptions wanted;
  wanted.structure_only = true;
  Graph g = [&] {
    try {
      return import_model(path, wanted);
    } catch (const Error& e) {
      throw Error(fmt::format("{}: neither a cubin nor PTX, and no model: {}", path, e.what()), e.next(), e.code());
    }
  }();
  const std::string embedded = plan::read_kernels(g.model.metadata).arch;
  if (!embedded.empty()) return embedded;
  const std::string device = plan::read_choices(g.model.metadata).device;
  const size_t at = device.rfind("sm_");
  return at == device.npos ? "" : device.substr(at, device.find_first_of(", ", at) - at);
}

struct InspectArguments : ModelArguments {
  std::string kernel, launch, arch;
  int top = 25;
};

/// The tables of kernels that a file or a plan has. One kernel alone is shown with its instructions, and beside its source.
std::vector<report::Table> tables_of(const std::vector<report::InspectedKernel>& kernels, const InspectArguments& a) {
  std::vector<report::Table> tables{report::kernel_table(kernels), report::occupancy_table(kernels)};
  const report::InspectedKernel& k = kernels.front();
  const auto same = [&](const report::InspectedKernel& o) {
    return o.kernel.entry == k.kernel.entry && o.problem == k.problem && o.launch == k.launch;
  };
  if (std::ranges::all_of(kernels, same)) {
    if (tables[1].rows.size() == 1) tables.push_back(report::resource_table(inspect::multiprocessor_of(k.kernel.arch), k.launch));
    tables.push_back(report::mix_table(k.kernel));
    tables.push_back(report::line_table(k.kernel, report::texts_of(k)));
  }
  if (a.top > 0 && !a.as_json)
    for (report::Table& t : tables) {
      if (t.key == "lines") t.sort_by("instructions");
      t.keep_top(static_cast<size_t>(a.top));
    }
  return tables;
}

std::vector<report::Table> tables_of_launch(const InspectArguments& a) {
  if (a.launch.empty())
    throw Error("neither a file nor a launch is given",
                "As in smelt inspect --launch regs=63,smem=70KiB,threads=128 --arch sm_90", ExitCode::usage);
  if (!a.kernel.empty())
    throw Error("--kernel: there is no file to look into", "Name the model, the plan, the cubin or the PTX.", ExitCode::usage);
  const inspect::Launch launch = inspect::parse_launch(a.launch);
  if (launch.threads == 0) throw Error("--launch: how many threads has a block?", "Add threads=128", ExitCode::usage);
  if (a.arch.empty()) return {report::architecture_table(launch)};
  std::vector<report::Table> tables{report::resource_table(inspect::multiprocessor_of(a.arch), launch)};
  if (a.as_json) {  // the answer beside the resources
    report::Table all = report::architecture_table(launch);
    const std::string arch = inspect::multiprocessor_of(a.arch).arch();
    std::erase_if(all.rows, [&](const auto& row) { return row[0].text != arch; });
    tables.push_back(std::move(all));
  }
  return tables;
}

std::vector<report::Table> tables_of_image(inspect::Image image, const InspectArguments& a) {
  if (!a.arch.empty())
    for (inspect::Kernel& k : image.kernels) k.arch = inspect::multiprocessor_of(a.arch).arch();
  return tables_of(chosen(kernels_in(image), a.kernel, a.launch), a);
}

std::vector<report::Table> tables_of_model(const InspectArguments& a) {
  report::Subject subject = a.subject();
  const std::string made_for = arch_of_plan(a.path);
  if (!device::cuda::ordinal_of(subject.options.device)) {
    const std::string arch = a.arch.empty() ? made_for : inspect::multiprocessor_of(a.arch).arch();
    if (arch.empty())
      throw Error(a.path + ": for which GPU? The model does not say", "Name its architecture: --arch sm_90", ExitCode::usage);
    subject.options.arch = arch;
  } else if (!a.arch.empty()) {
    throw Error("--device and --arch name a GPU each", "Leave one out.", ExitCode::usage);
  }
  stage("planning");
  const auto plan = Plan::build(subject.path, subject.options);
  const run::PlannedRun run = run::planned_run(*plan, profile::resolve_shapes(plan->inputs(), subject.shapes));
  std::vector<report::InspectedKernel> kernels = report::kernels_of(run);
  if (kernels.empty()) throw Error(a.path + ": no step of it launches a kernel", "", ExitCode::failed);
  kernels = chosen(std::move(kernels), a.kernel, a.launch);
  stage("compiling the kernels");
  report::add_code(kernels, plan->options().threads > 0 ? plan->options().threads : threads::usable_cores());
  std::vector<report::Table> tables = tables_of(kernels, a);
  std::string& note = tables.front().note;
  if (!run.unseen.empty())
    note += fmt::format("{}Not seen, for sizes that a run finds out: what follows, or is in, {}", note.empty() ? "" : "\n",
                        report::joined(run.unseen));
  return tables;
}

}  // namespace

Action add_inspect(CLI::App& app) {
  auto a = std::make_shared<InspectArguments>();
  add_model_options(app, *a);
  app.get_option("model")->required(false)->description(
      "An ONNX model or a plan, whose kernels for a GPU are made as for a run; a cubin or PTX; none to ask about --launch alone");
  app.add_option("--kernel", a->kernel,
                 "Only this kernel, with its instructions by kind and by line of source; of a model also the name of a step")
      ->type_name("NAME");
  app.add_option(
         "--launch", a->launch,
         "What a block takes: regs=63,smem=70KiB,threads=128, also static=4KiB, barriers=2; of a kernel in a file, what it says "
         "holds where this does not (smem: the dynamic shared memory)")
      ->type_name("SPEC");
  app.add_option("--arch", a->arch,
                 "The architecture: sm_90. All where it is not given; of a file its own; a plan's is known, a model's is not")
      ->type_name("ARCH");
  app.add_option("--top", a->top, "Rows of each table (25), of lines those with the most instructions; 0 all")
      ->check(in_range(0, 1 << 30))
      ->type_name("N");
  return [a] {
    std::vector<report::Table> tables;
    if (a->path.empty()) {
      tables = tables_of_launch(*a);
    } else {
      auto image = read_image(a->path);
      tables = image ? tables_of_image(std::move(*image), *a) : tables_of_model(*a);
    }
    if (a->as_json)
      print_line(report::document_json("smelt.inspect", tables));
    else
      print_tables(tables);
    return 0;
  };
}

}  // namespace smelt::cli
