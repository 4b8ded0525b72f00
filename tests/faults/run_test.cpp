// What fails while a plan is built, tuned or run.
#include "faults/faults.h"

namespace smelt {
namespace {

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

/// The made-up driver runs copies and the kernel of src/device/cuda/booleans.h.
TEST_F(Faults, bools_of_other_bytes_that_lie_on_the_device_become_1_and_are_not_written_to) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    Builder b;
    b.output(b.node("y", "Identity", {b.input("x", to_sym({700}), DType::boolean)}, to_sym({700}), DType::boolean));
    const auto plan = Plan::build(std::move(b.g), on_gpu());
    Tensor odd = Tensor::zeros(DType::u8, {700});
    for (size_t i = 0; i < 700; ++i) odd.data<uint8_t>()[i] = static_cast<uint8_t>(i % 5 == 0 ? 0 : i);
    const Tensor placed = plan->place(Tensor::borrow(DType::boolean, {700}, odd.raw(), nullptr));
    Session session(plan);
    for (int run = 0; run < 2; ++run) {
      const Tensor y = to_host(session.run({{"x", placed}}).begin()->second);
      const auto* bytes = static_cast<const uint8_t*>(y.raw());
      for (size_t i = 0; i < 700; ++i) ASSERT_EQ(bytes[i], odd.data<uint8_t>()[i] != 0) << i;
    }
    EXPECT_EQ(std::memcmp(to_host(placed).raw(), odd.raw(), 700), 0);
    EXPECT_EQ(cuda.on_legacy_stream, 0);
  });
}

/// Strings lie in the host's memory alone, and the processor compares them.
TEST_F(Faults, strings_are_compared_by_the_processor) {
  alone_with_nvrtc([&](fake::Cuda&) {
    Builder b;
    const ValueId x = b.constant("x", Tensor::of_strings({2}, {"a", "b"})), y = b.input("y", to_sym({2}), DType::string);
    b.output(b.node("same", "Equal", {x, y}, to_sym({2}), DType::boolean));
    Options options = on_gpu();
    options.allow_fallback = true;
    Session session(Plan::build(std::move(b.g), options));
    const Tensor same = to_host(session.run({{"y", Tensor::of_strings({2}, {"a", "c"})}}).begin()->second);
    EXPECT_EQ(same.to_ints(), (std::vector<int64_t>{1, 0}));
  });
}

/// A constant of 1 GB that the processor makes, as kernels of the GPU count to 2^30: the GPU has no room for it, which is known before
/// as much of the host's memory is taken.
TEST_F(Faults, a_step_of_the_processor_takes_the_hosts_memory_when_it_runs) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    constexpr int64_t many = (int64_t{1} << 30) + 8;
    Builder b;
    const ValueId x = b.input("x", to_sym({1}), DType::u8), times = b.constant("times", Tensor::of<int64_t>({1}, {many}));
    b.output(b.node("odd", "ConstantOfShape", {times}, to_sym({many}), DType::u8, {{"value", Tensor::of<uint8_t>({1}, {7})}}));
    b.output(b.node("same", "Identity", {x}, to_sym({1}), DType::u8));
    Options options = on_gpu();
    options.allow_fallback = true;
    cuda.memory = size_t{3} << 30;
    cuda.used = size_t{2} << 30;  // by somebody else
    const auto plan = Plan::build(std::move(b.g), options);
    EXPECT_TRUE(std::ranges::any_of(plan->steps(), &StepInfo::on_host));
    EXPECT_THAT(said_by([&] {
                  Session(plan).run({{"x", Tensor::zeros(DType::u8, {1})}});
                }),
                AllOf(HasSubstr("no memory for 'odd'"), HasSubstr("GPU")));
    EXPECT_EQ(cuda.calls["cuMemAllocHost_v2"], 0);
  });
}

/// Kernels of such a Pad are offered with a list of 2^30 places.
TEST_F(Faults, a_result_that_the_gpu_has_no_room_for_is_refused_before_kernels_are_offered) {
  alone([&](fake::Cuda&) {
    constexpr int64_t pad = int64_t{1} << 30;
    Builder b;
    const ValueId x = b.input("x", to_sym({8, 8}), DType::u8),
                  pads = b.constant("pads", Tensor::of<int64_t>({4}, {pad, 0, 0, 0}));
    b.output(b.node("odd", "Pad", {x, pads}, to_sym({pad + 8, 8}), DType::u8));
    EXPECT_THAT(said_by([&] { Plan::build(std::move(b.g), on_gpu()); }),
                AllOf(HasSubstr("'odd' (Pad): no memory for a result u8[1073741832, 8]: 8589934656 bytes"),
                      HasSubstr("the GPU's memory has 1073741824")));
  });
}

/// A tensor without elements has no memory on the GPU: kernels get no address of the host's in its place.
TEST_F(Faults, one_hot_of_no_values_is_refused) {
  alone_with_nvrtc([&](fake::Cuda&) {
    Builder b;
    const ValueId i = b.input("i", to_sym({3}), DType::i64), depth = b.constant("depth", Tensor::of<int64_t>({}, {4}));
    const ValueId values = b.input("values", {Dim("n")});
    b.output(b.node("hot", "OneHot", {i, depth, values}, to_sym({3, 4})));
    Session session(Plan::build(std::move(b.g), on_gpu()));
    EXPECT_THAT(said_by([&] {
                  session.run({{"i", Tensor::zeros(DType::i64, {3})}, {"values", Tensor::zeros(DType::f32, {0})}});
                }),
                HasSubstr("values have shape [0], expected [2]"));
  });
}

/// A Pad whose amounts only the run knows: the processor makes no result that the GPU has no room for.
TEST_F(Faults, a_result_whose_size_only_the_run_knows_is_no_larger_than_the_gpus_room) {
  alone_with_nvrtc([&](fake::Cuda& cuda) {
    Builder b;
    const ValueId x = b.input("x", to_sym({8})), by = b.input("by", to_sym({2}), DType::i64);
    b.output(b.node("odd", "Pad", {x, by}, SymShape{Dim("n")}));
    Options options = on_gpu();
    options.allow_fallback = true;
    const auto padded = [&](Options with, int64_t pads) {
      return said_by([&] {
        Session(Plan::build(clone(b.g), with))
            .run({{"x", Tensor::zeros(DType::f32, {8})}, {"by", Tensor::of<int64_t>({2}, {pads, 0})}});
      });
    };
    EXPECT_EQ(padded(options, 1000), "");
    options.memory_limit = 1 << 20;
    EXPECT_THAT(padded(options, 1 << 20), HasSubstr("of the limit of 1048576 are left"));
    options.memory_limit = 0;
    EXPECT_THAT(padded(options, static_cast<int64_t>(cuda.memory)), HasSubstr("are left"));
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

TEST_F(Faults, a_build_compiles_for_the_stages_of_a_race_and_the_next_one_for_nothing) {
  const auto a_convolution = [] {
    Builder b;
    const ValueId x = b.input("x", to_sym({1, 64, 28, 28}), DType::f16);
    const ValueId w = b.weights("w", {64, 64, 3, 3}, DType::f16);
    b.output(b.node("conv", "Conv", {x, w}, to_sym({1, 64, 28, 28}), DType::f16, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}));
    return std::move(b.g);
  };
  const auto build = [&](bool cold) {
    const auto plan = Plan::build(a_convolution(), on_gpu(2));
    EXPECT_EQ(stats(*plan).compiled > 0, cold);
    // What was measured beside other work may be measured again.
    if (cold || read_text(folder / "marked") == "0") {
      EXPECT_EQ(plan->build_info().measured > 0, cold);
    }
    if (cold) write_text(folder / "marked", fmt::format("{}", plan->build_info().under_load));
    size_t measured = 0, offered = 0;
    std::vector<std::string> chosen;
    std::set<std::string> tactics;
    for (const StepInfo& s : plan->steps()) {
      chosen.push_back(s.tactic + " " + s.config);
      if (!s.problem.starts_with("conv:")) continue;
      tactics.insert(s.tactic), measured = 1, offered = 1;
      for (const TacticNote& n : s.others) {
        measured += n.us > 0, offered += n.us > 0 || n.reason.find("not measured") != n.reason.npos;
        if (n.us > 0) tactics.insert(n.tactic);
      }
    }
    const size_t most = tune::first_of_tactic * tactics.size() + tune::most_others;
    EXPECT_GE(measured, tactics.size());
    EXPECT_LE(measured, most);
    EXPECT_GT(offered, most) << "too few to say anything";
    EXPECT_LE(stats(*plan).compiled, std::ssize(chosen) * tune::stage_of_few + static_cast<int64_t>(most));
    if (cold)
      write_text(folder / "chosen", fmt::format("{}", fmt::join(chosen, "\n")));
    else
      EXPECT_EQ(read_text(folder / "chosen"), fmt::format("{}", fmt::join(chosen, "\n")));
  };
  alone_with_nvrtc([&](fake::Cuda&) { build(true); });
  alone_with_nvrtc([&](fake::Cuda&) { build(false); });
}

/// The made-up driver's runs take equally long, so that the order decides; the next build takes that from the cache.
TEST_F(Faults, a_model_chooses_among_its_finalists_and_the_next_build_chooses_the_same_unmeasured) {
  const auto build = [&](bool cold) {
    alone_with_nvrtc([&](fake::Cuda& cuda) {
      const auto plan = Plan::build(several_kernels(), on_gpu(2));
      const int launches = cuda.calls["cuGraphLaunch"];
      std::string said;
      for (const StepInfo& s : plan->steps()) {
        said += s.tactic + " " + s.config + "\n";
        for (const TacticNote& n : s.others)
          if (n.reason.find("a run of the model takes 0.0 µs longer") != n.reason.npos) said += "  " + n.config + "\n";
      }
      EXPECT_NE(said.find("\n  "), said.npos) << "no finalist in " << said;
      EXPECT_EQ(Session(plan).run(input()).size(), 2u);
      const std::vector<BuildStage> stages = plan->build_info().stages;
      EXPECT_TRUE(std::ranges::any_of(stages, [](const BuildStage& s) { return s.name == "tuning in the model"; }));
      if (cold) {
        write_text(folder / "said", said);
        // What was measured beside other work may be measured again.
        write_text(folder / "launches", fmt::format("{}", plan->build_info().under_load == 0 ? launches : INT_MAX));
      } else {
        EXPECT_EQ(read_text(folder / "said"), said);
        EXPECT_LT(launches, std::stoi(read_text(folder / "launches")) / 2);
      }
    });
  };
  build(true);
  build(false);
}

TEST_F(Faults, clocks_that_are_held_down_while_tuning_are_said) {
  const auto build = [&](int level) {
    open_first("libnvidia-ml.so.1");
    const BuildInfo info = Plan::build(several_kernels(), on_gpu(level))->build_info();
    EXPECT_EQ(report::clocks_text(info.clocks), info.measured == 0 ? "" : "1410 of 1980 MHz, held down by power cap");
    return info.measured;
  };
  alone_with_nvrtc([&](fake::Cuda&) { EXPECT_EQ(build(0), 0); });
  alone_with_nvrtc([&](fake::Cuda&) { EXPECT_GT(build(1), 0); });
  alone_with_nvrtc([&](fake::Cuda&) { build(1); });  // its timings are in the cache, but for those that were taken under load
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

}  // namespace
}  // namespace smelt
