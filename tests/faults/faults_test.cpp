// What is said and done when something on the GPU's side fails: on a driver that is made up (fake/cuda.h). Each test is a process
// of its own, for what is opened once in a process stays open.
#include <dlfcn.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "device/cuda/compiler.h"
#include "device/cuda/device.h"
#include "device/cuda/nvml.h"
#include "device/cuda/stream_place.h"
#include "faults/fake/cuda.h"
#include "fuse/match/rewrite.h"
#include "report/gpus.h"
#include "report/report.h"
#include "run/plan.h"
#include "run/save.h"
#include "support/builder.h"
#include "support/child.h"
#include "support/errors.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;
using fuse::Builder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int skipped = 77;

/// What asks for this file's name later gets this library.
void* open_first(const std::string& file) {
  void* library = dlopen((std::string(SMELT_FAKES) + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) ADD_FAILURE() << dlerror();
  return library;
}

fake::Cuda& open_driver() {
  void* library = open_first("libcuda.so.1");
  return *reinterpret_cast<decltype(&smelt_fake_cuda)>(dlsym(library, "smelt_fake_cuda"))();
}

/// y = softmax(sigmoid(x) + c) over [rows, 512], and its transpose.
Graph several_kernels(int64_t rows = 64) {
  Builder b;
  const ValueId x = b.input("x", to_sym({rows, 512}));
  const ValueId sum =
      b.node("sum", "Add", {b.node("sigmoid", "Sigmoid", {x}, to_sym({rows, 512})), b.weights("c", {512})}, to_sym({rows, 512}));
  const ValueId soft = b.node("soft", "Softmax", {sum}, to_sym({rows, 512}), DType::f32, {{"axis", int64_t{-1}}});
  b.output(soft);
  b.output(b.node("turned", "Transpose", {soft}, to_sym({512, rows}), DType::f32, {{"perm", std::vector<int64_t>{1, 0}}}));
  return std::move(b.g);
}

std::string said(const Error& e) { return std::string(e.what()) + "\n" + e.next(); }

template <class F> std::string said_by(F&& f) {
  const auto e = error_from(f);
  return e ? said(*e) : "";
}

class Faults : public testing::Test {
 protected:
  Faults() : folder_(fs::path(testing::TempDir()) / fmt::format("smelt_faults_{}", getpid())) { fs::create_directories(folder_); }
  ~Faults() override { fs::remove_all(folder_); }

  /// f(the driver's state) in a process of its own.
  template <class F> void alone(F f) {
    fflush(nullptr);
    const int status = test::in_child([&] {
      try {
        f(open_driver());
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      fflush(nullptr);
      return HasFailure() ? 1 : IsSkipped() ? skipped : 0;
    });
    if (status == skipped) GTEST_SKIP() << "no NVRTC";
    EXPECT_EQ(status, 0) << (status < 0 ? strsignal(-status) : "what failed is above");
  }
  /// The same where kernels have to be compiled.
  template <class F> void alone_with_nvrtc(F f) {
    alone([&](fake::Cuda& cuda) {
      if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
      f(cuda);
    });
  }

  Options on_gpu(int level = 0) const {
    Options o;
    o.device = "gpu";
    o.tuning_level = level;
    o.tactics = "-cublaslt,-cudnn";
    o.cache_dir = folder_.string();
    return o;
  }
  std::string refusal(fake::Cuda&) const {
    return said_by([&] { Plan::build(several_kernels(), on_gpu()); });
  }

  static std::map<std::string, Tensor> input() { return {{"x", Tensor::zeros(DType::f32, {64, 512})}}; }
  static device::cuda::CubinStats stats(const Plan& plan) {
    return dynamic_cast<const run::PlanImpl&>(plan).context().tuner.machine().gpu->cubins->stats();
  }

  fs::path folder_;
};

TEST_F(Faults, streams_of_a_place_are_its_own_and_go_with_it) {
  alone([&](fake::Cuda& cuda) {
    using device::cuda::Multiprocessors, device::cuda::StreamPlace;
    const auto device = device::cuda::Device::open(0);
    {
      const auto [mine, others] = Multiprocessors::split(device, 7);
      EXPECT_EQ(mine->count(), 8) << "they are split by two";
      EXPECT_EQ(others->count(), 6);
      const StreamPlace outer(StreamPlace::Priority::last);
      {
        const StreamPlace place(StreamPlace::Priority::first, mine);
        const device::cuda::Stream stream(device);
        EXPECT_EQ(cuda.calls["cuGreenCtxStreamCreate"], 1);
      }
      EXPECT_EQ(cuda.calls["cuStreamDestroy_v2"], 1);
      const device::cuda::Stream stream(device);
      EXPECT_EQ(cuda.calls["cuStreamCreateWithPriority"], 1);
    }
    EXPECT_EQ(cuda.calls["cuGreenCtxDestroy"], 2);
    const device::cuda::Stream usual(device);
    EXPECT_EQ(cuda.calls["cuStreamCreate"], 1);
    EXPECT_THAT(said_by([&] { Multiprocessors::split(device, 14); }), HasSubstr("leave none"));
    cuda.faults["cuDevSmResourceSplitByCount"] = {0, 801};
    EXPECT_THAT(said_by([&] { Multiprocessors::split(device, 7); }), HasSubstr("splitting the multiprocessors"));
  });
}

TEST_F(Faults, who_else_uses_a_gpu_is_said_by_nvml) {
  alone([&](fake::Cuda&) {
    open_first("libnvidia-ml.so.1");
    const auto use = device::cuda::read_process_use("GPU-0", device::cuda::now_for_nvml());
    ASSERT_EQ(use.size(), 1u);
    EXPECT_EQ(use[0].pid, 77);
    EXPECT_DOUBLE_EQ(use[0].multiprocessors_percent, 40);
  });
}

TEST_F(Faults, without_any_a_plan_runs) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    Session session(Plan::build(several_kernels(), on_gpu()));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(session.run(input()).size(), 2u);
    EXPECT_EQ(cuda.calls["cuGraphLaunch"], 3);
  });
}

TEST_F(Faults, without_any_streams_are_made_for_the_most_that_are_used_at_a_time) {
  alone([&](fake::Cuda& cuda) {
    using namespace device::cuda;
    auto device = Device::open(0);
    for (int i = 0; i < 100; ++i) {
      const Stream one(device), other(device);
      EXPECT_NE(one.get(), other.get());
    }
    EXPECT_EQ(cuda.calls["cuStreamCreate"], 2);
    device.reset();
    EXPECT_EQ(cuda.calls["cuStreamDestroy_v2"], 2);
  });
}

TEST_F(Faults, an_old_driver_is_said_with_what_is_needed) {
  alone([&](fake::Cuda& cuda) {
    cuda.version = 11040;
    EXPECT_THAT(refusal(cuda),
                AllOf(HasSubstr("no GPU: the driver is of CUDA 11.4, smelt needs 12.3 or newer"), HasSubstr("--device cpu")));
  });
}

TEST_F(Faults, a_driver_that_does_not_start_is_said) {
  alone([&](fake::Cuda& cuda) {
    cuda.faults["cuInit"] = {0, 100};
    EXPECT_THAT(refusal(cuda), HasSubstr("no GPU: the driver (CUDA 13.0) does not start"));
  });
}

TEST_F(Faults, a_driver_without_a_gpu_is_said) {
  alone([&](fake::Cuda& cuda) {
    cuda.devices = 0;
    EXPECT_THAT(refusal(cuda), HasSubstr("no GPU: the driver sees no GPU"));
  });
}

TEST_F(Faults, a_gpu_that_is_too_old_is_said) {
  alone([&](fake::Cuda& cuda) {
    cuda.major = 7;
    cuda.minor = 0;
    EXPECT_THAT(refusal(cuda), HasSubstr("GPU 0 (Made-up GPU) has compute capability 7.0; smelt's kernels need 7.5"));
  });
}

TEST_F(Faults, a_gpu_that_nvrtc_does_not_know_is_said_before_anything_is_compiled) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    cuda.major = 19;
    testing::internal::CaptureStderr();
    EXPECT_THAT(refusal(cuda), AllOf(HasSubstr("does not compile for sm_197a"), HasSubstr("newer")));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  });
}

TEST_F(Faults, a_driver_older_than_nvrtc_by_a_major_version_is_said) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    cuda.version = 12040;
    if (device::cuda::compiler_version().starts_with("NVRTC 12")) return;  // that one does
    EXPECT_THAT(refusal(cuda), AllOf(HasSubstr("CUDA 12.4"), HasSubstr("nvidia-cuda-nvrtc-cu12")));
  });
}

TEST_F(Faults, the_table_of_libraries_says_what_was_found_and_what_a_missing_one_would_give) {
  alone([&](fake::Cuda&) {
    std::vector<report::Table> tables;
    report::add_gpu_tables(tables, true);
    const report::Table& libraries = tables.back();
    ASSERT_EQ(libraries.key, "libraries");
    std::vector<std::string> names;
    for (const auto& row : libraries.rows) {
      names.push_back(row[0].text);
      const std::string version = row[1].text, found = row[2].text;
      EXPECT_TRUE(version.empty() ? found.find(" it smelt ") != found.npos : found.starts_with('/'))
          << names.back() << ": " << found;
    }
    EXPECT_EQ(names, (std::vector<std::string>{"NVRTC", "cuBLASLt", "cuDNN", "CUPTI", "NVML"}));
  });
}

TEST_F(Faults, too_little_memory_says_what_was_planned_and_what_is_free) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    cuda.memory = 16 << 20;
    auto execution = Plan::build(several_kernels(8192), on_gpu())->execution();
    const std::string text = said_by([&] { execution->bind(std::vector{Tensor::zeros(DType::f32, {8192, 512})}); });
    EXPECT_THAT(text,
                AllOf(HasSubstr("no memory for "), HasSubstr("16777216 bytes asked for"), HasSubstr("held by smelt on GPU 0")));
    EXPECT_THAT(text, HasSubstr(fmt::format("{} free", cuda.memory - cuda.used)));
    execution.reset();  // with what it held given back, another plan runs
    Session session(Plan::build(several_kernels(), on_gpu()));
    EXPECT_EQ(session.run(input()).size(), 2u);
  });
}

TEST_F(Faults, the_tables_of_a_kernel_are_uploaded_beside_the_captures_of_other_threads) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    Builder b;
    const ValueId x = b.input("x", to_sym({1, 3, 8, 8}));
    const ValueId scales = b.constant("scales", Tensor::of<float>({4}, {1, 1, 2, 2}));
    b.output(b.node("larger", "Resize", {x, ValueId::none, scales}, to_sym({1, 3, 16, 16}), DType::f32,
                    {{"mode", std::string("linear")}}));
    const int before = cuda.calls["cuMemcpyHtoDAsync_v2"];
    Session session(Plan::build(std::move(b.g), on_gpu()));
    EXPECT_GT(cuda.calls["cuMemcpyHtoDAsync_v2"], before) << "the taps of an axis are a table";
    session.run({{"x", Tensor::zeros(DType::f32, {1, 3, 8, 8})}});
    EXPECT_EQ(cuda.on_legacy_stream, 0);
  });
}

TEST_F(Faults, a_kernel_that_does_not_load_makes_room_for_the_next) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    Builder b;
    b.output(
        b.node("soft", "Softmax", {b.input("x", to_sym({64, 512}))}, to_sym({64, 512}), DType::f32, {{"axis", int64_t{-1}}}));
    const auto best = Plan::build(clone(b.g), on_gpu())->steps()[0].config;
    cuda.faults["cuModuleLoadData"] = {cuda.calls["cuModuleLoadData"], 209, 1};
    testing::internal::CaptureStderr();
    const auto plan = Plan::build(clone(b.g), on_gpu());
    EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr(best + " is left out: loading"), HasSubstr("NO_BINARY")));
    EXPECT_NE(plan->steps()[0].config, best);
    EXPECT_EQ(Session(plan).run(input()).size(), 1u);
    // Where none loads, the last one's error is the plan's.
    cuda.faults["cuModuleLoadData"] = {cuda.calls["cuModuleLoadData"], 209};
    EXPECT_THAT(said_by([&] { Plan::build(clone(b.g), on_gpu()); }),
                AllOf(HasSubstr("'soft' (Softmax)"), HasSubstr("NO_BINARY")));
  });
}

TEST_F(Faults, a_device_error_in_mid_run_is_reported_and_nothing_is_asked_of_the_device_afterwards) {
  for (const char* call : {"cuGraphLaunch", "cuStreamSynchronize"}) {
    alone_with_nvrtc([&](fake::Cuda& cuda) {
      const auto plan = Plan::build(several_kernels(), on_gpu());
      Session session(plan), other(plan);
      other.run(input());
      session.run(input());
      cuda.faults[call] = {cuda.calls[call], 700};
      EXPECT_THAT(said_by([&] { session.run(input()); }),
                  AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"), HasSubstr("start the process again")));
      const auto calls = cuda.calls;
      for (Session* s : {&session, &other})
        EXPECT_THAT(said_by([&] { s->run(input()); }),
                    AllOf(HasSubstr("is lost since"), HasSubstr("ILLEGAL_ADDRESS"), HasSubstr("Start the process again")));
      EXPECT_THAT(said_by([&] { session.enqueue(input(), nullptr); }), HasSubstr("is lost since"));
      EXPECT_THAT(said_by([&] { Plan::build(several_kernels(), on_gpu()); }), HasSubstr("is lost since"));
      EXPECT_THAT(said_by([&] { plan->execution()->bind(std::vector{input().at("x")}); }), HasSubstr("is lost since"));
      for (const char* work : {"cuGraphLaunch", "cuLaunchKernelEx", "cuMemAlloc_v2", "cuModuleLoadData"})
        EXPECT_EQ(cuda.calls[work], calls.at(work)) << work;
    });
    // What it left behind is whole.
    alone_with_nvrtc([&](fake::Cuda&) {
      const auto plan = Plan::build(several_kernels(), on_gpu());
      EXPECT_EQ(stats(*plan).compiled, 0);
      EXPECT_GE(stats(*plan).from_disk, 2);
      EXPECT_EQ(Session(plan).run(input()).size(), 2u);
    });
  }
}

TEST_F(Faults, a_device_error_while_tuning_blames_no_kernel_in_the_cache) {
  for (const int launches : {0, 2, 20}) {
    alone_with_nvrtc([&](fake::Cuda& cuda) {
      cuda.faults["cuLaunchKernelEx"] = {launches, 719};
      testing::internal::CaptureStderr();
      EXPECT_THAT(said_by([&] { Plan::build(several_kernels(), on_gpu(1)); }), HasSubstr("CUDA_ERROR_LAUNCH_FAILED")) << launches;
      EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("is left out"))) << launches;
    });
  }
  for (const char* call : {"cuModuleLoadData", "cuMemAlloc_v2"}) {
    alone_with_nvrtc([&](fake::Cuda& cuda) {
      cuda.faults[call] = {1, 719};
      testing::internal::CaptureStderr();
      EXPECT_THAT(said_by([&] { Plan::build(several_kernels(), on_gpu(1)); }), HasSubstr("CUDA_ERROR_LAUNCH_FAILED")) << call;
      EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("is left out"))) << call;
    });
  }
  alone_with_nvrtc([&](fake::Cuda&) {
    const auto plan = Plan::build(several_kernels(), on_gpu(1));
    EXPECT_GT(plan->build_info().measured, 0);
    for (const StepInfo& s : plan->steps())
      for (const TacticNote& n : s.others) EXPECT_THAT(n.reason, Not(HasSubstr("failed"))) << s.problem;
  });
}

TEST_F(Faults, clocks_that_are_held_down_while_tuning_are_said) {
  for (const int level : {0, 1}) {
    alone_with_nvrtc([&](fake::Cuda&) {
      open_first("libnvidia-ml.so.1");
      const auto plan = Plan::build(several_kernels(), on_gpu(level));
      const std::string expected = "1410 of 1980 MHz, held down by power cap";
      EXPECT_EQ(report::clocks_text(plan->build_info().clocks), level == 0 ? "" : expected);
    });
  }
  alone_with_nvrtc([&](fake::Cuda&) {  // every timing is in the cache
    open_first("libnvidia-ml.so.1");
    EXPECT_EQ(report::clocks_text(Plan::build(several_kernels(), on_gpu(1))->build_info().clocks), "");
  });
}

TEST_F(Faults, too_little_memory_to_tune_blames_no_kernel_in_the_cache) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    cuda.memory = 4 << 20;
    EXPECT_THAT(said_by([&] { Plan::build(several_kernels(8192), on_gpu(1)); }), HasSubstr("no memory for "));
  });
  alone_with_nvrtc([&](fake::Cuda&) {
    const auto plan = Plan::build(several_kernels(8192), on_gpu(1));
    for (const StepInfo& s : plan->steps())
      for (const TacticNote& n : s.others) EXPECT_THAT(n.reason, Not(HasSubstr("failed"))) << s.problem;
  });
}

TEST_F(Faults, of_poisoned_caches_kernels_are_made_anew_and_timings_are_said) {
  alone_with_nvrtc([&](fake::Cuda&) { EXPECT_GT(Plan::build(several_kernels(), on_gpu(1))->build_info().measured, 0); });
  for (const bool cut : {true, false}) {
    int damaged = 0;
    for (const auto& file : fs::recursive_directory_iterator(folder_)) {
      if (!file.is_regular_file()) continue;
      std::string bytes = read_text(file.path());
      if (cut)
        bytes.resize(bytes.size() / 2);
      else
        for (size_t i = 0; i < bytes.size(); i += 100) bytes[i] = static_cast<char>(~bytes[i]);
      std::ofstream(file.path(), std::ios::binary) << bytes;
      ++damaged;
    }
    ASSERT_GE(damaged, 3);
    alone_with_nvrtc([&](fake::Cuda&) {
      testing::internal::CaptureStderr();
      const auto plan = Plan::build(several_kernels(), on_gpu(1));
      EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("is damaged; its kernel is compiled again"),
                                                                HasSubstr("tuning.db to begin with an empty cache")));
      EXPECT_GT(plan->build_info().measured, 0);
      EXPECT_EQ(stats(*plan).from_disk, 0);
      EXPECT_EQ(Session(plan).run(input()).size(), 2u);
    });
    alone_with_nvrtc([&](fake::Cuda&) {
      const auto plan = Plan::build(several_kernels(), on_gpu(1));
      EXPECT_EQ(stats(*plan).compiled, 0) << "they were not kept";
      EXPECT_GT(plan->build_info().measured, 0);
    });
  }
}

TEST_F(Faults, without_a_folder_for_caches_nothing_is_kept_and_that_is_said) {
  setenv("SMELT_CACHE_DIR", "/proc/no/such", 1);
  alone_with_nvrtc([&](fake::Cuda&) {
    Options o = on_gpu(1);
    o.cache_dir.clear();
    testing::internal::CaptureStderr();
    const auto plan = Plan::build(several_kernels(), o);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("timings are not kept"), HasSubstr("compiled kernels are not kept")));
    EXPECT_EQ(Session(plan).run(input()).size(), 2u);
  });
  unsetenv("SMELT_CACHE_DIR");
}

class WithoutCompiler : public Faults {
 protected:
  void SetUp() override {
    alone_with_nvrtc([&](fake::Cuda&) {
      Options o = on_gpu();
      o.arch = "sm_87";
      save_plan(*Plan::build(several_kernels(), o), file(), {.embed_kernels = true});
    });
  }
  fs::path file() const { return folder_ / "plan.onnx"; }
  /// f where NVRTC cannot be opened.
  template <class F> void alone_without(F f) {
    alone([&](fake::Cuda& cuda) {
      open_first("libnvrtc.so.13");
      EXPECT_NE(device::cuda::compiler_missing(), "");
      f(cuda);
    });
  }
  Options no_cache() const {
    Options o = on_gpu(2);
    o.use_cache = false;
    return o;
  }
};

TEST_F(WithoutCompiler, a_plan_that_carries_its_kernels_runs) {
  alone_without([&](fake::Cuda& cuda) {
    testing::internal::CaptureStderr();
    Session session(file().string(), no_cache());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(session.run(input()).size(), 2u);
    EXPECT_GE(cuda.calls["cuModuleLoadData"], 2);
    EXPECT_EQ(session.plan()->build_info().measured, 0);
  });
}

TEST_F(WithoutCompiler, a_plan_that_carries_none_says_what_is_missing) {
  alone_without([&](fake::Cuda&) {
    EXPECT_THAT(said_by([&] { Plan::build(several_kernels(), no_cache()); }),
                AllOf(HasSubstr("NVRTC"), HasSubstr("pip install nvidia-cuda-nvrtc")));
  });
}

TEST_F(WithoutCompiler, a_damaged_kernel_is_named) {
  std::string bytes = read_text(file());
  const size_t at = bytes.find("smelt.plan.kernel.") + 300;
  bytes[at] = bytes[at] == 'A' ? 'B' : 'A';
  write_text(file(), bytes);
  alone_without([&](fake::Cuda&) {
    testing::internal::CaptureStderr();
    EXPECT_THAT(
        said_by([&] { Plan::build(file().string(), no_cache()); }),
        AllOf(HasSubstr("the plan does not carry the kernel of "), HasSubstr("or not undamaged"), HasSubstr("--embed-kernels")));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("is damaged"), Not(HasSubstr("left out"))));
  });
}

TEST_F(WithoutCompiler, another_architecture_is_said) {
  alone_without([&](fake::Cuda& cuda) {
    cuda.minor = 6;
    testing::internal::CaptureStderr();
    EXPECT_THAT(said_by([&] { Plan::build(file().string(), no_cache()); }), HasSubstr("NVRTC"));
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("carries kernels for sm_87, which Made-up GPU (sm_86) does not run"));
  });
}

}  // namespace
}  // namespace smelt
