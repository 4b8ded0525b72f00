// Every kernel, run for compute-sanitizer, which sees what it reads and writes; the results are not compared. The problems are
// the forms that tests/ops/cuda/kernels_test.cpp compiles. Without NVIDIA's libraries: their kernels are not smelt's to mend, and
// instrumenting them takes minutes. SMELT_KERNELS_OF, a regular expression, chooses among the problems: "gemm|attention".
// SMELT_LONGEST_US leaves out what is estimated to take longer (200): racecheck looks at each block's own memory, so that small
// problems show the same, and takes minutes for a millisecond.
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <regex>
#include <set>
#include <thread>

#include "gpu/gpu_trial.h"
#include "ops/cuda/forms.h"

namespace smelt::ops {
namespace {

namespace cuda = device::cuda;

/// GPU 0, its kernels kept where SMELT_CACHE_DIR says: each of the sanitizer's tools runs the same ones.
const std::shared_ptr<const Gpu>& every_gpu() {
  static const std::shared_ptr<const Gpu> gpu = [] {
    auto made = std::make_shared<Gpu>(*test_gpu());
    made->info.l2_bytes = 1 << 20;  // small problems have the kernels of large ones
    if (const char* folder = std::getenv("SMELT_CACHE_DIR"))
      made->cubins = std::make_shared<cuda::CubinStore>(std::filesystem::path(folder) / "cubins");
    return made;
  }();
  return gpu;
}

/// Device memory of so many bytes and none beyond, which nothing has written: not of the pool, whose blocks are larger and used.
class Exact {
 public:
  explicit Exact(int64_t bytes) {
    const cuda::Device::Current current(*test_gpu()->device);
    cuda::check(cuda::driver().memory_allocate(&address_, static_cast<size_t>(std::max<int64_t>(1, bytes))), "allocating");
  }
  ~Exact() {
    const cuda::Device::Current current(*test_gpu()->device);
    cuda::driver().memory_free(address_);
  }
  Exact(const Exact&) = delete;
  void upload(const std::vector<char>& bytes, cuda::abi::Stream stream) {
    const cuda::Device::Current current(*test_gpu()->device);
    cuda::check(cuda::driver().copy_to_device(address_, bytes.data(), bytes.size(), stream), "uploading");
    cuda::check(cuda::driver().stream_synchronize(stream), "uploading");
  }
  void* get() const { return reinterpret_cast<void*>(address_); }

 private:
  cuda::abi::Address address_ = 0;
};

/// Numbers of 0 to 1, integers of 0 to 2; the same ones again after 2^14.
std::vector<char> values(const BoundTensor& t) {
  if (t.constant.valid()) {
    const char* raw = static_cast<const char*>(t.constant.raw());
    return {raw, raw + t.constant.nbytes()};
  }
  constexpr int64_t period = 1 << 14;
  const int64_t count = elements(t.shape);
  const Tensor some = random_tensor(t.type, {std::min(count, period)}, 1, 0, is_float(t.type) ? 1 : 3);
  std::vector<char> all(static_cast<size_t>(bytes(t.type, count)));
  for (size_t at = 0; at < all.size(); at += static_cast<size_t>(some.nbytes()))
    std::memcpy(all.data() + at, some.raw(), std::min(all.size() - at, static_cast<size_t>(some.nbytes())));
  return all;
}

/// While it lives, the kernel `name` runs. One that has not ended after five minutes hangs: its name is printed and the process ends, as
/// nothing takes a kernel off a GPU.
class EndsInTime {
 public:
  explicit EndsInTime(std::string name) : thread_([this, name = std::move(name)] { watch(name); }) {}
  ~EndsInTime() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  EndsInTime(const EndsInTime&) = delete;

 private:
  static constexpr std::chrono::seconds limit{300};

  void watch(const std::string& name) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return ended_; })) return;
    std::cout << name << " has not ended after " << limit.count() << " s" << std::endl;
    std::_Exit(1);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // the last: it uses the others
};

void run(const Form& f, Kernel& kernel) {
  const cuda::Stream stream(test_gpu()->device);
  std::vector<std::unique_ptr<Exact>> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const BoundTensor& t : f.bound.inputs) {
    in.push_back(nullptr);
    if (t.type == DType::undefined) continue;
    memory.push_back(std::make_unique<Exact>(storage_bytes(t)));
    const std::vector<char> bytes = values(t);
    ASSERT_EQ(static_cast<int64_t>(bytes.size()), storage_bytes(t));
    memory.back()->upload(bytes, stream.get());
    in.back() = memory.back()->get();
  }
  for (const BoundTensor& t : f.bound.outputs) {
    memory.push_back(std::make_unique<Exact>(storage_bytes(t)));
    out.push_back(memory.back()->get());
  }
  const Exact workspace(kernel.workspace());
  kernel.run({in, out, workspace.get(), stream.get()});
  stream.synchronize();
}

/// The forms, and small ones of kernels whose forms take long.
std::vector<Form> problems() {
  std::vector<Form> list = all_forms();
  std::erase_if(list, [](const Form& f) { return !f.has_kernels_on(test_gpu()->info.arch); });
  const auto attention = [&](DType type, int64_t queries, int64_t keys, int64_t depth) {
    list.push_back(Form("Attention", smelt_domain, {{"scale", 0.1f}})
                       .in(type, {1, 2, queries, depth})
                       .in(type, {1, 2, keys, depth})
                       .in(type, {1, 2, keys, depth})
                       .out(type, {1, 2, queries, depth}));
  };
  attention(DType::f32, 70, 90, 40);
  attention(DType::f16, 70, 150, 64);
  for (const int64_t depth : {40, 72, 128}) attention(DType::f16, 200, 300, depth);
  for (const char* mode : {"avg", "max"})
    list.push_back(
        Form("RoiAlign", "", {{"mode", std::string(mode)}, {"output_height", int64_t{7}}, {"output_width", int64_t{5}}})
            .in(DType::f32, {1, 24, 20, 30})
            .in(DType::f32, {9, 4})
            .in(DType::i64, {9})
            .out(DType::f32, {9, 24, 7, 5}));
  return list;
}

constexpr int slices = 256;

class GpuEveryKernel : public ::testing::TestWithParam<int> {};

/// A kernel of one of the problems.
struct Run {
  const Form* form;
  std::string name;
  const Candidate* candidate;
};

/// All of smelt's own, the best candidates of all problems first.
const std::vector<Run>& runs() {
  const char* const longest = std::getenv("SMELT_LONGEST_US");
  const double longest_us =
      longest ? std::atof(longest) : 200;  // as estimated: under the tools it takes up to a thousand times as long
  static std::vector<Form> forms = problems();
  static std::vector<Offer> offers;
  static const std::vector<Run> all = [&] {
    std::vector<Run> list;
    Machine machine;
    machine.gpu = every_gpu();
    size_t most = 0;
    const char* const wanted = std::getenv("SMELT_KERNELS_OF");
    const std::regex of(wanted ? wanted : "", std::regex::icase);
    for (Form& f : forms) {
      f.bound.node = &f.node;
      offers.push_back(offer(f.bound, machine));
      if (!std::regex_search(offers.back().problem, of)) offers.back().candidates.clear();
      most = std::max(most, offers.back().candidates.size());
    }
    for (size_t rank = 0; rank < most; ++rank)
      for (size_t i = 0; i < forms.size(); ++i) {
        if (rank >= offers[i].candidates.size()) continue;
        const Candidate& c = offers[i].candidates[rank];
        const bool others = c.tactic == "cublaslt" || c.tactic == "cudnn" || c.tactic == "reference";
        if (others || c.estimate_us > longest_us) continue;
        list.push_back({&forms[i], offers[i].problem + " " + c.config, &c});
      }
    return list;
  }();
  return all;
}

TEST_P(GpuEveryKernel, runs) {
  const std::set<std::string> before = test_gpu()->log->compiled();  // by other tests of this process
  for (size_t i = static_cast<size_t>(GetParam()); i < runs().size(); i += slices) {
    SCOPED_TRACE(runs()[i].name);
    const std::unique_ptr<Kernel> kernel = runs()[i].candidate->prepare();
    const EndsInTime watch(runs()[i].name);
    run(*runs()[i].form, *kernel);
  }
  const std::set<std::string> launched = test_gpu()->log->launched();
  for (const std::string& name : test_gpu()->log->compiled())
    EXPECT_TRUE(before.contains(name) || launched.contains(name)) << name << " was not launched";
}

INSTANTIATE_TEST_SUITE_P(Slices, GpuEveryKernel, ::testing::Range(0, slices));

}  // namespace
}  // namespace smelt::ops
