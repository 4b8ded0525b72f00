// Kernels from caches and plans, where they are damaged, or there is no compiler.
#include "faults/faults.h"

namespace smelt {
namespace {

TEST_F(Faults, of_poisoned_caches_kernels_are_made_anew_and_timings_are_said) {
  alone_with_nvrtc([&](fake::Cuda&) { EXPECT_GT(Plan::build(several_kernels(), on_gpu(1))->build_info().measured, 0); });
  for (const bool cut : {true, false}) {
    int damaged = 0;
    for (const auto& file : fs::recursive_directory_iterator(folder)) {
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
  fs::path file() const { return folder / "plan.onnx"; }
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
