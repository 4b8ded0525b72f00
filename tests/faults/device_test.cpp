// Drivers, libraries and GPUs that are missing, old or shared.
#include "device/cuda/clusters.h"
#include "faults/faults.h"
#include "ops/cuda/gpu.h"

namespace smelt {
namespace {

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

/// A recurrent state that clusters of 8 blocks do not hold.
ops::Offer wide_state(const std::shared_ptr<const ops::Gpu>& gpu) {
  Node node{.op = "GRU", .inputs = {ValueId(0), ValueId(1), ValueId(2)}, .outputs = {ValueId(3)}};
  ops::BoundNode bound{&node, {}, {}, nullptr};
  for (const Shape& s : {Shape{9, 1, 64}, Shape{1, 1800, 64}, Shape{1, 1800, 600}})
    bound.inputs.push_back({.type = DType::f32, .shape = s});
  bound.outputs.push_back({.type = DType::f32, .shape = {9, 1, 1, 600}});
  ops::Machine machine;
  machine.gpu = gpu;
  return ops::offer(bound, machine);
}

TEST_F(Faults, clusters_have_the_blocks_that_the_card_has_groups_of_multiprocessors_for) {
  for (const unsigned group : {18u, 12u})
    alone([&](fake::Cuda& cuda) {
      cuda.major = 9, cuda.minor = 0, cuda.group = group;
      const auto gpu = ops::open_gpu(0);
      for (int i = 0; i < 2; ++i) {
        const ops::Offer o = wide_state(gpu);
        const auto is_wide = [](const ops::Candidate& c) { return c.config.find("b16") != std::string::npos; };
        EXPECT_EQ(std::ranges::any_of(o.candidates, is_wide), group >= 16);
        EXPECT_TRUE(std::ranges::any_of(o.candidates, [](const auto& c) { return c.config.find("b8") != std::string::npos; }));
      }
      EXPECT_EQ(cuda.calls["cuOccupancyMaxActiveClusters"], 1) << "a card is asked once";
    });
  alone([&](fake::Cuda& cuda) {
    cuda.major = 9, cuda.minor = 0;
    cuda.faults["cuModuleLoadData"] = {0, 209};
    device::cuda::Clusters clusters;
    EXPECT_EQ(clusters.at_once(device::cuda::Device::open(0), 16), 0) << "a driver that compiles nothing";
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

}  // namespace
}  // namespace smelt
