#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "cli/common.h"
#include "inspect/cubin.h"
#include "inspect/ptx.h"
#include "inspect/sass.h"
#include "report/kernels.h"

namespace smelt::cli {
namespace {

/// Of each kernel that `name` asks for (empty: all), with the launch that was given over its own.
std::vector<report::InspectedKernel> kernels_of(const inspect::Image& image, const std::string& name, const std::string& launch) {
  std::vector<report::InspectedKernel> kernels;
  for (const inspect::Kernel& k : image.kernels) {
    if (!name.empty() && k.entry != name) continue;
    report::InspectedKernel i = report::inspected(k);
    const int before = i.launch.threads;
    i.launch = inspect::parse_launch(launch, i.launch);
    i.assumed_threads = i.assumed_threads && (before == i.launch.threads && launch.find("threads=") == launch.npos);
    kernels.push_back(std::move(i));
  }
  if (!kernels.empty()) return kernels;
  std::vector<std::string> names;
  for (const inspect::Kernel& k : image.kernels) names.push_back(k.entry);
  throw Error(fmt::format("there is no kernel '{}'", name), "There are: " + report::joined(names, 20), ExitCode::usage);
}

inspect::Image read_image(const std::string& path) {
  const std::string bytes = read_text(path);
  try {
    if (inspect::is_elf(bytes)) {
      inspect::Image image = inspect::read_cubin(bytes);
      inspect::add_sass(image, path);
      return image;
    }
    if (inspect::is_ptx(bytes)) return inspect::read_ptx(bytes);
  } catch (const Error& e) {
    throw Error(path + ": " + e.what(), e.next(), e.code());
  }
  throw Error(path + ": neither a cubin nor PTX", "Of a fat binary, cuobjdump -xelf all FILE takes the cubins out.",
              ExitCode::unsupported);
}

}  // namespace

Action add_inspect(CLI::App& app) {
  struct Arguments {
    std::string path, kernel, launch, arch;
    int top = 25;
    bool as_json = false;
  };
  auto a = std::make_shared<Arguments>();
  app.add_option("file", a->path, "A cubin or PTX; none to ask about --launch alone")->type_name("FILE");
  app.add_option("--kernel", a->kernel, "Only this kernel, with its instructions by kind and by line of source")
      ->type_name("NAME");
  app.add_option(
         "--launch", a->launch,
         "What a block takes: regs=63,smem=70KiB,threads=128, also static=4KiB, barriers=2; of a kernel in a file, what it says "
         "holds where this does not (smem: the dynamic shared memory)")
      ->type_name("SPEC");
  app.add_option("--arch", a->arch, "The architecture: sm_90; all where it is not given, of a file its own")->type_name("ARCH");
  app.add_option("--top", a->top, "Lines of source shown (25), those with the most instructions; 0 all")
      ->check(in_range(0, 1 << 30))
      ->type_name("N");
  add_json(app, a->as_json);
  return [a] {
    std::vector<report::Table> tables;
    if (a->path.empty()) {
      if (a->launch.empty())
        throw Error("neither a file nor a launch is given",
                    "As in smelt inspect --launch regs=63,smem=70KiB,threads=128 --arch sm_90", ExitCode::usage);
      if (!a->kernel.empty())
        throw Error("--kernel: there is no file to look into", "Name the cubin or the PTX.", ExitCode::usage);
      const inspect::Launch launch = inspect::parse_launch(a->launch);
      if (launch.threads == 0) throw Error("--launch: how many threads has a block?", "Add threads=128", ExitCode::usage);
      if (a->arch.empty())
        tables = {report::architecture_table(launch)};
      else
        tables = {report::resource_table(inspect::multiprocessor_of(a->arch), launch)};
      if (a->as_json && !a->arch.empty()) {  // the answer beside the resources
        report::Table all = report::architecture_table(launch);
        const std::string arch = inspect::multiprocessor_of(a->arch).arch();
        std::erase_if(all.rows, [&](const auto& row) { return row[0].text != arch; });
        tables.push_back(std::move(all));
      }
    } else {
      inspect::Image image = read_image(a->path);
      if (!a->arch.empty())
        for (inspect::Kernel& k : image.kernels) k.arch = inspect::multiprocessor_of(a->arch).arch();
      const auto kernels = kernels_of(image, a->kernel, a->launch);
      tables = {report::kernel_table(kernels), report::occupancy_table(kernels)};
      if (kernels.size() == 1) {
        const report::InspectedKernel& k = kernels.front();
        if (tables[1].rows.size() == 1)
          tables.push_back(report::resource_table(inspect::multiprocessor_of(k.kernel.arch), k.launch));
        tables.push_back(report::mix_table(k.kernel));
        tables.push_back(report::line_table(k.kernel));
        if (a->top > 0 && !a->as_json) {
          tables.back().sort_by("instructions");
          tables.back().keep_top(static_cast<size_t>(a->top));
        }
      }
    }
    if (a->as_json) {
      print_line(report::table_json(tables));
    } else {
      print_tables(tables);
    }
    return 0;
  };
}

}  // namespace smelt::cli
