#include "device/cuda/compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "device/cuda/abi/nvrtc.h"
#include "device/cuda/cutlass.h"
#include "device/cuda/driver.h"
#include "device/cuda/library.h"
#include "kernels/embedded.h"

namespace smelt::device::cuda {
namespace {

using abi::Nvrtc;

struct Opened {
  Functions<Nvrtc> nvrtc;
  int major = 0, minor = 0;
};

void load_functions(Functions<Nvrtc>& to) {
  to.load(&Nvrtc::error_text, "nvrtcGetErrorString");
#define X(name, symbol, ...) to.load(&Nvrtc::name, #symbol);
  SMELT_CUDA_NVRTC(X)
#undef X
}

constexpr const char* install = "pip install nvidia-cuda-nvrtc, or install the CUDA toolkit.";

Opened open() {
  std::vector<std::string> files{"libnvrtc.so.13", "libnvrtc.so.12"};
  if (const int driver = driver_version(); driver > 0 && driver < 13000) std::ranges::reverse(files);  // see check_compiler
  Opened o{{{"NVRTC", files, "without it smelt cannot compile its GPU kernels"}, install}};
  load_functions(o.nvrtc);
  if (!o.nvrtc.missing().empty()) return o;
  o.nvrtc.get().version(&o.major, &o.minor);
  // NVRTC opens its second library by name alone: one that the process has already is found wherever it lies.
  const std::string& path = o.nvrtc.library().path();
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  dlopen(fmt::format("{}libnvrtc-builtins.so.{}.{}", folder, o.major, o.minor).c_str(), RTLD_NOW | RTLD_LOCAL);
  return o;
}

const Opened& opened() {
  static const Opened o = open();
  return o;
}

const Nvrtc& nvrtc() { return opened().nvrtc.get<CompilerMissing>(); }

/// Instances that compile smelt's kernels alone. cuDNN compiles by the process' NVRTC, through an interface of theirs, with options of
/// LLVM that stay set: kernels compiled after that have other code, and results other last bits.
///
/// An instance compiles under a lock of its own for a third to half of the time, so that threads beyond two or three wait for it: 20
/// cores made 8 kernels a second by one instance. Each takes 105 MiB, so that another is opened only for threads that would wait.
class OwnNvrtc {
 public:
  /// An instance for the time of one program.
  class Lease {
   public:
    explicit Lease(OwnNvrtc& all) : all_(all), taken_(all.take()) {}
    ~Lease() { all_.give_back(taken_); }
    Lease(const Lease&) = delete;
    const Nvrtc* operator->() const { return &taken_.functions.get<CompilerMissing>(); }

   private:
    friend class OwnNvrtc;
    struct Instance {
      Functions<Nvrtc> functions;
      int programs = 0;
    };
    OwnNvrtc& all_;
    Instance& taken_;
  };

 private:
  static constexpr size_t most = 6;
  static constexpr int programs_each = 2;  // before another is opened

  Lease::Instance& take() {
    nvrtc();  // throws where there is none
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto least = std::ranges::min_element(instances_, {}, &Lease::Instance::programs);
      const bool more = least == instances_.end() || (least->programs >= programs_each && instances_.size() < most && copies_);
      if (least != instances_.end() && (!more || opening_)) return ++least->programs, *least;
      if (opening_) {  // the first one
        opened_.wait(lock);
        continue;
      }
      opening_ = true;
      lock.unlock();
      std::optional<Functions<Nvrtc>> own;
      try {
        load_functions(own.emplace(opened().nvrtc.library().own_instance(), install));
      } catch (...) {
        own.reset();  // no memory for another
      }
      lock.lock();
      opening_ = false;
      opened_.notify_all();
      // Where the system allows no copies, one instance serves all.
      copies_ = own && own->missing().empty() && own->get().compile != nvrtc().compile;
      if (!own && instances_.empty()) fail("no memory for an instance of NVRTC");
      if (copies_ || instances_.empty()) instances_.push_back({*std::move(own)});
    }
  }
  void give_back(Lease::Instance& instance) {
    const std::lock_guard lock(mutex_);
    --instance.programs;
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  std::list<Lease::Instance> instances_;
  bool opening_ = false, copies_ = true;
};

OwnNvrtc& own_nvrtc() {
  static OwnNvrtc all;
  return all;
}

void check_nvrtc(abi::NvrtcResult result, std::string_view doing) {
  if (result != abi::nvrtc_success) fail("{}: {}", doing, nvrtc().error_text(result));
}

constexpr std::array<std::string_view, 8> archs{"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

/// The number after `before` in a line of the log; 0 where it is not there.
int number_before(std::string_view line, std::string_view after) {
  const size_t at = line.find(after);
  if (at == line.npos) return 0;
  size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + at, value);
  return value;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// ptxas -v says of each kernel, in three lines:
//   ptxas info    : Compiling entry function 'k' for 'sm_90a'
//   ptxas info    : Function properties for k
//       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 10 registers, used 0 barriers, 384 bytes smem
std::vector<KernelResources> resources_in(std::string_view log) {
  std::vector<KernelResources> kernels;
  bool of_kernel = false;
  for (const std::string_view line : lines_of(log)) {
    constexpr std::string_view compiling = "Compiling entry function '", properties = "Function properties for ";
    if (const size_t at = line.find(compiling); at != line.npos) {
      const std::string_view rest = line.substr(at + compiling.size());
      kernels.push_back({.entry = std::string(rest.substr(0, rest.find('\'')))});
      of_kernel = false;
    } else if (const size_t of = line.find(properties); of != line.npos) {
      of_kernel = !kernels.empty() && line.substr(of + properties.size()) == kernels.back().entry;
    } else if (of_kernel && line.find("bytes stack frame") != line.npos) {
      KernelResources& k = kernels.back();
      k.stack_bytes = number_before(line, " bytes stack frame");
      k.spill_store_bytes = number_before(line, " bytes spill stores");
      k.spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (!kernels.empty() && line.find("Used ") != line.npos && line.find(" registers") != line.npos) {
      kernels.back().registers = number_before(line, " registers");
      kernels.back().static_shared_bytes = number_before(line, " bytes smem");
    }
  }
  return kernels;
}

/// What ptxas says where it did not do what a kernel for Hopper is written for: it waits for each wgmma by itself, or leaves out
/// setmaxnreg. Both are warnings to it. Empty where it did.
std::string made_slow(std::string_view log) {
  for (const std::string_view line : lines_of(log))
    for (const std::string_view what : {"wgmma.mma_async instructions are serialized", "'setmaxnreg' ignored"})
      if (line.find(what) != line.npos) return std::string(line);
  return {};
}

/// The first error of a log with the line of the source that it is about.
std::string first_error(std::string_view log, const Source& source) {
  const auto lines = lines_of(log);
  const auto tells = [](std::string_view l) {
    return l.find("error") != l.npos || l.find("fatal") != l.npos;  // as ptxas begins
  };
  const auto at = std::ranges::find_if(lines, tells);
  if (at == lines.end()) return lines.empty() ? "no log" : std::string(lines.front());
  std::string text(*at);
  if (const size_t open = at->find('('); at->starts_with(source.name) && open != at->npos) {
    size_t line = 0;
    std::from_chars(at->data() + open + 1, at->data() + at->size(), line);
    const auto code = lines_of(source.code);
    if (line >= 1 && line <= code.size()) text += fmt::format(": {}", code[line - 1]);
  }
  return text;
}

/// What NVRTC makes of a source: to be asked for a cubin or for PTX.
class Program {
 public:
  /// Throws as compile() does.
  Program(const Source& source, std::string_view arch, std::vector<std::string> more) : where_(compiling(source, arch)) {
    std::vector<const char*> names, texts;
    for (const kernels::File& f : kernels::files()) {
      names.push_back(f.name);
      texts.push_back(f.text);
    }
    check_nvrtc(api_->create(&program_, source.code.c_str(), source.name.c_str(), static_cast<int>(names.size()), texts.data(),
                             names.data()),
                where_);
    try {
      build(source, arch, std::move(more));
    } catch (...) {
      api_->destroy(&program_);
      throw;
    }
  }
  ~Program() { api_->destroy(&program_); }
  Program(const Program&) = delete;

  const std::string& log() const { return log_; }
  std::string cubin() const { return text(api_->cubin_size, api_->cubin); }
  std::string ptx() const { return text(api_->ptx_size, api_->ptx); }

 private:
  static std::string compiling(const Source& source, std::string_view arch) {
    return fmt::format("compiling {} for {}", source.name, arch);
  }

  void build(const Source& source, std::string_view arch, std::vector<std::string> options) {
    // Nothing of the machine is read: no include folders, no standard headers. But CuTe's, where a source says so; functions of theirs
    // say of themselves neither that they are the host's nor the device's.
    options.insert(options.begin(),
                   {fmt::format("--gpu-architecture={}", arch), "--std=c++20", "-DNDEBUG", "--no-source-include"});
    // Beside a driver NVRTC 13 has a cache of its own, whose answers come without ptxas's report.
    if (opened().major >= 13) options.push_back("--no-cache");
    for (const std::string& o : source.options) {
      if (!is_cutlass_option(o)) {
        options.push_back(o);
        continue;
      }
      const CutlassHeaders& headers = cutlass_headers();
      if (!headers.missing.empty()) fail_unsupported("{}: {}", where_, headers.missing);
      options.push_back("--device-as-default-execution-space");
      for (const std::string& folder : headers.folders) options.push_back("--include-path=" + folder);
    }
    std::vector<const char*> pointers;
    for (const std::string& o : options) pointers.push_back(o.c_str());
    const abi::NvrtcResult result = api_->compile(program_, static_cast<int>(pointers.size()), pointers.data());
    log_ = text(api_->log_size, api_->log);
    while (!log_.empty() && (log_.back() == '\0' || log_.back() == '\n')) log_.pop_back();
    if (result == abi::nvrtc_success) return;
    const std::string why = log_.empty() ? api_->error_text(result) : first_error(log_, source);
    if (result == abi::nvrtc_invalid_option) fail_unsupported("{}: NVRTC {}.{}: {}", where_, opened().major, opened().minor, why);
    fail("{}: {}", where_, why);
  }

  template <class Size, class Get> std::string text(Size size_of, Get get) const {
    size_t size = 0;
    check_nvrtc(size_of(program_, &size), where_);
    std::string bytes(size, '\0');
    check_nvrtc(get(program_, bytes.data()), where_);
    return bytes;
  }

  OwnNvrtc::Lease api_{own_nvrtc()};
  std::string where_, log_;
  abi::NvrtcProgram program_ = nullptr;
};

}  // namespace

const KernelResources& Cubin::kernel(std::string_view entry) const {
  const auto at = std::ranges::find(kernels, entry, &KernelResources::entry);
  if (at == kernels.end()) fail("a cubin has no kernel '{}'", entry);
  return *at;
}

std::span<const std::string_view> known_archs() { return archs; }

std::pair<int, int> capability_of(std::string_view arch) {
  std::string_view digits = arch;
  if (digits.starts_with("sm_")) digits.remove_prefix(3);
  if (digits.ends_with('a')) digits.remove_suffix(1);
  const auto same = [&](std::string_view known) {
    known.remove_prefix(3);
    if (known.ends_with('a')) known.remove_suffix(1);
    return known == digits;
  };
  int number = 0;
  if (!arch.starts_with("sm_") || std::ranges::none_of(archs, same) ||
      std::from_chars(digits.data(), digits.data() + digits.size(), number).ptr != digits.data() + digits.size()) {
    // A GPU or two of each, for who knows its name alone.
    constexpr std::array<std::string_view, archs.size()> gpus{"T4",         "A100",       "A10, RTX 30", "Jetson Orin",
                                                              "L4, RTX 40", "H100, H200", "B200",        "RTX 50"};
    std::string known;
    for (size_t i = 0; i < archs.size(); ++i) known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", archs[i], gpus[i]);
    throw Error(fmt::format("'{}' is no architecture that smelt compiles for", arch), "They are: " + known, ExitCode::usage);
  }
  return {number / 10, number % 10};
}

std::string arch_of(int major, int minor) { return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : ""); }

std::string compiler_missing() { return opened().nvrtc.missing(); }

std::string compiler_version() { return nvrtc(), "NVRTC " + compiler_library().version; }

LibraryState compiler_library() {
  const Opened& o = opened();
  return o.nvrtc.state(o.nvrtc.missing().empty() ? fmt::format("{}.{}", o.major, o.minor) : "");
}

void check_compiler(std::string_view arch, int driver) {
  const abi::Nvrtc& api = nvrtc();
  int count = 0, number = 0;
  check_nvrtc(api.supported_count(&count), "asking NVRTC for its architectures");
  std::vector<int> known(static_cast<size_t>(count));
  check_nvrtc(api.supported(known.data()), "asking NVRTC for its architectures");
  std::from_chars(arch.data() + arch.find('_') + 1, arch.data() + arch.size(), number);
  if (std::ranges::find(known, number) == known.end())
    throw Error(fmt::format("{} does not compile for {}", compiler_version(), arch),
                fmt::format("Install {} one, as in pip install nvidia-cuda-nvrtc.",
                            !known.empty() && number > std::ranges::max(known) ? "a newer" : "another"),
                ExitCode::unsupported);
  if (driver > 0 && driver / 1000 < opened().major)
    throw Error(fmt::format("the driver is of CUDA {}.{} and does not load what {} compiles", driver / 1000, driver % 1000 / 10,
                            compiler_version()),
                fmt::format("pip install nvidia-cuda-nvrtc-cu{}, or install a newer driver.", driver / 1000),
                ExitCode::unsupported);
}

Cubin compile(const Source& source, std::string_view arch) {
  const auto begin = std::chrono::steady_clock::now();
  const Program program(source, arch, {"--ptxas-options=-v"});
  if (const std::string slow = made_slow(program.log()); !slow.empty()) fail("compiling {} for {}: {}", source.name, arch, slow);
  Cubin cubin;
  cubin.bytes = program.cubin();
  cubin.kernels = resources_in(program.log());
  if (cubin.kernels.empty() && source.code.find("__global__") != source.code.npos)
    fail("compiling {} for {}: ptxas reported on no kernel", source.name, arch);
  cubin.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return cubin;
}

std::string compile_to_ptx(const Source& source, std::string_view arch) {
  std::string virtual_arch(arch);
  if (virtual_arch.starts_with("sm_")) virtual_arch.replace(0, 2, "compute");
  std::string ptx = Program(source, virtual_arch, {"--generate-line-info"}).ptx();
  while (!ptx.empty() && ptx.back() == '\0') ptx.pop_back();
  return ptx;
}

}  // namespace smelt::device::cuda
