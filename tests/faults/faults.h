// What is said and done when something on the GPU's side fails: on a driver that is made up (fake/cuda.h). Each test is a process
// of its own, for what is opened once in a process stays open.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

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
#include "tune/stages.h"

namespace smelt {

namespace fs = std::filesystem;
using fuse::Builder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

inline constexpr int skipped = 77;

/// What asks for this file's name later gets this library.
inline void* open_first(const std::string& file) {
  void* library = dlopen((std::string(SMELT_FAKES) + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) ADD_FAILURE() << dlerror();
  return library;
}

inline fake::Cuda& open_driver() {
  void* library = open_first("libcuda.so.1");
  return *reinterpret_cast<decltype(&smelt_fake_cuda)>(dlsym(library, "smelt_fake_cuda"))();
}

/// y = softmax(sigmoid(x) + c) over [rows, 512], and its transpose.
inline Graph several_kernels(int64_t rows = 64) {
  Builder b;
  const ValueId x = b.input("x", to_sym({rows, 512}));
  const ValueId sum =
      b.node("sum", "Add", {b.node("sigmoid", "Sigmoid", {x}, to_sym({rows, 512})), b.weights("c", {512})}, to_sym({rows, 512}));
  const ValueId soft = b.node("soft", "Softmax", {sum}, to_sym({rows, 512}), DType::f32, {{"axis", int64_t{-1}}});
  b.output(soft);
  b.output(b.node("turned", "Transpose", {soft}, to_sym({512, rows}), DType::f32, {{"perm", std::vector<int64_t>{1, 0}}}));
  return std::move(b.g);
}

inline std::string said(const Error& e) { return std::string(e.what()) + "\n" + e.next(); }

template <class F> std::string said_by(F&& f) {
  const auto e = error_from(f);
  return e ? said(*e) : "";
}

class Faults : public testing::Test {
 protected:
  Faults() : folder(fs::path(testing::TempDir()) / fmt::format("smelt_faults_{}", getpid())) { fs::create_directories(folder); }
  ~Faults() override { fs::remove_all(folder); }

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
    o.cache_dir = folder.string();
    return o;
  }
  std::string refusal(fake::Cuda&) const {
    return said_by([&] { Plan::build(several_kernels(), on_gpu()); });
  }

  static std::map<std::string, Tensor> input() { return {{"x", Tensor::zeros(DType::f32, {64, 512})}}; }
  static device::cuda::CubinStats stats(const Plan& plan) {
    return dynamic_cast<const run::PlanImpl&>(plan).context().tuner.machine().gpu->cubins->stats();
  }

  fs::path folder;
};

}  // namespace smelt
