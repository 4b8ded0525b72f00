// Compiling kernels for GPUs, with no GPU: NVRTC alone. Where it is not there (no PyTorch in .venv) these tests say so.
#include "device/cuda/compiler.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/by_threads.h"
#include "base/error.h"
#include "base/file.h"
#include "device/cuda/cubins.h"
#include "device/cuda/device.h"

namespace smelt::device::cuda {
namespace {

using ::testing::HasSubstr;

Source shift(const std::string& name = "shift") {
  return {name,
          "#include \"common/types.cuh\"\n"
          "extern \"C\" __global__ void " +
              name +
              "(bf16* x, int n) {\n"
              "  __shared__ float tile[64];\n"
              "  const int i = blockIdx.x * 64 + threadIdx.x;\n"
              "  tile[threadIdx.x] = i < n ? f32(x[i]) : 0.f;\n"
              "  __syncthreads();\n"
              "  if (i < n) x[i] = bf16_of(tile[63 - threadIdx.x]);\n"
              "}\n",
          {}};
}

std::string message(const std::function<void()>& f, ExitCode code) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  return "";
}

class Compiler : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_missing().empty()) GTEST_SKIP() << compiler_missing();
    folder_ = std::filesystem::temp_directory_path() / ("smelt-cubins-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path only_file() const {
    std::vector<std::filesystem::path> files;
    for (const auto& e : std::filesystem::recursive_directory_iterator(folder_))
      if (e.is_regular_file()) files.push_back(e.path());
    EXPECT_EQ(files.size(), 1u);
    return files.at(0);
  }

  std::filesystem::path folder_;
};

TEST_F(Compiler, refuses_what_ptxas_made_slow_on_hopper) {
  const auto product = [](const char* between) {
    return Source{"product",
                  fmt::format("#include \"common/ptx/wgmma.cuh\"\n"
                              "extern \"C\" __global__ void __launch_bounds__(128, 1) product(float* y, u64 a) {{\n"
                              "  float d[4] = {{}};\n"
                              "  ptx::wgmma_fence();\n"
                              "  ptx::wgmma_f16<0, 0>(d, a, a);\n"
                              "  {}\n"
                              "  ptx::wgmma_f16<0, 0>(d, a, a);\n"
                              "  ptx::wgmma_commit_and_wait();\n"
                              "  for (int i = 0; i < 4; ++i) y[i * 128 + threadIdx.x] = d[i];\n"
                              "}}\n",
                              between),
                  {}};
  };
  EXPECT_EQ(compile(product(""), "sm_90a").kernels.size(), 1u);
  EXPECT_THAT(message([&] { compile(product("d[0] += y[0];"), "sm_90a"); }, ExitCode::failed),
              HasSubstr("wgmma.mma_async instructions are serialized"));
  const Source unbounded{"unbounded",
                         "extern \"C\" __global__ void unbounded(float* y) {\n"
                         "  asm volatile(\"setmaxnreg.dec.sync.aligned.u32 24;\");\n"
                         "  y[0] = 1;\n"
                         "}\n",
                         {}};
  EXPECT_THAT(message([&] { compile(unbounded, "sm_90a"); }, ExitCode::failed), HasSubstr("'setmaxnreg' ignored"));
}

TEST_F(Compiler, compiles_for_every_known_architecture) {
  for (const std::string_view arch : known_archs()) {
    const Cubin cubin = compile(shift(), arch);
    const KernelResources& k = cubin.kernel("shift");
    EXPECT_GT(k.registers, 0) << arch;
    EXPECT_EQ(k.static_shared_bytes, 256) << arch;
    EXPECT_EQ(k.spill_store_bytes + k.spill_load_bytes + k.stack_bytes, 0) << arch;
    EXPECT_EQ(cubin.bytes.substr(0, 4),
              "\x7f"
              "ELF")
        << arch;
  }
}

TEST_F(Compiler, reads_spills_and_stack_of_each_kernel) {
  Source s = shift();
  s.code +=
      "extern \"C\" __global__ void indexed(float* x, int n) {\n"
      "  float a[40];\n"
      "  for (int i = 0; i < 40; ++i) a[i] = x[i * n];\n"
      "  for (int i = 0; i < n; ++i) x[i] = a[(i * n) % 40];\n"  // an index known at run time: the array is on the stack
      "}\n";
  const Cubin cubin = compile(s, "sm_80");
  EXPECT_EQ(cubin.kernels.size(), 2u);
  EXPECT_EQ(cubin.kernel("shift").stack_bytes, 0);
  EXPECT_EQ(cubin.kernel("indexed").stack_bytes, 160);
  EXPECT_THROW(cubin.kernel("nope"), Error);
}

TEST_F(Compiler, says_the_first_error_with_its_line) {
  Source s = shift();
  s.code += "__device__ int broken() { return frobnicate(); }\n";
  const std::string text = message([&] { compile(s, "sm_90a"); }, ExitCode::failed);
  EXPECT_THAT(text, HasSubstr("compiling shift for sm_90a"));
  EXPECT_THAT(text, HasSubstr("\"frobnicate\" is undefined"));
  EXPECT_THAT(text, HasSubstr("{ return frobnicate(); }"));
}

TEST_F(Compiler, reads_nothing_of_the_machine) {
  Source s = shift();
  s.code = "#include <stdio.h>\n" + s.code;
  EXPECT_THAT(message([&] { compile(s, "sm_90a"); }, ExitCode::failed), HasSubstr("stdio.h"));
}

TEST_F(Compiler, names_the_architectures_that_it_knows) {
  EXPECT_EQ(capability_of("sm_90"), std::pair(9, 0));
  EXPECT_EQ(capability_of("sm_90a"), std::pair(9, 0));
  EXPECT_EQ(capability_of("sm_120a"), std::pair(12, 0));
  EXPECT_EQ(arch_of(9, 0), "sm_90a");
  EXPECT_EQ(arch_of(8, 7), "sm_87");
  for (const char* wrong : {"", "90", "sm_", "sm_13", "sm_9x", "compute_90", "sm_90ab"})
    EXPECT_THAT(message([&] { capability_of(wrong); }, ExitCode::usage), HasSubstr("no architecture")) << wrong;
  EXPECT_THAT(message([&] { compile(shift(), "sm_13"); }, ExitCode::unsupported), HasSubstr("sm_13"));
}

TEST_F(Compiler, knows_a_device_of_every_architecture) {
  for (const std::string_view arch : known_archs()) {
    const DeviceInfo info = info_of_arch(arch);
    EXPECT_EQ(info.arch, arch);
    EXPECT_GT(info.multiprocessors, 0);
    EXPECT_GE(info.shared_per_multiprocessor, info.shared_per_block + info.reserved_shared_per_block);
    EXPECT_EQ(info.threads_per_multiprocessor % 32, 0);
    EXPECT_GT(info.bandwidth, 1e5);
    EXPECT_GT(info.memory_bytes, info.l2_bytes);
  }
  EXPECT_EQ(info_of_arch("sm_90").arch, "sm_90a");
  EXPECT_THAT(message([&] { info_of_arch("sm_13"); }, ExitCode::usage), HasSubstr("no architecture"));
}

TEST_F(Compiler, compiles_once_what_several_threads_want) {
  CubinStore store;
  std::array<std::shared_ptr<const Cubin>, 4> cubins;
  {
    std::vector<std::jthread> threads;
    for (auto& cubin : cubins) threads.emplace_back([&] { cubin = store.get(shift(), "sm_90a"); });
  }
  for (const auto& cubin : cubins) EXPECT_EQ(cubin, cubins[0]);
  EXPECT_EQ(store.stats().compiled, 1);
  EXPECT_EQ(store.stats().from_memory, 3);
  EXPECT_EQ(store.in_memory(), (Cubins{{CubinStore::key(shift(), "sm_90a"), cubins[0]}}));
}

TEST_F(Compiler, many_threads_have_the_same_code_whichever_instance_made_it) {
  std::array<Cubin, 12> cubins;
  {
    std::vector<std::jthread> threads;
    for (Cubin& cubin : cubins) threads.emplace_back([&] { cubin = compile(shift(), "sm_90a"); });
  }
  for (const Cubin& cubin : cubins) EXPECT_EQ(cubin.bytes, cubins[0].bytes);
}

TEST_F(Compiler, tells_every_thread_that_it_does_not_compile) {
  CubinStore store;
  Source broken = shift();
  broken.code += "nonsense";
  std::atomic<int> told = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] { told += !message([&] { store.get(broken, "sm_90a"); }, ExitCode::failed).empty(); });
  }
  EXPECT_EQ(told, 3);
  EXPECT_TRUE(store.in_memory().empty());
}

TEST_F(Compiler, takes_a_plans_cubin_for_its_own) {
  CubinStore here;
  here.get(shift(), "sm_80");
  CubinStore there("", [](const Source&, std::string_view) -> Cubin { throw CompilerMissing("NVRTC was not found"); });
  there.carry(here.in_memory());
  EXPECT_EQ(there.get(shift(), "sm_80"), here.get(shift(), "sm_80"));
  EXPECT_EQ(there.stats().compiled, 0);
  const std::string text = message([&] { there.get(shift(), "sm_90a"); }, ExitCode::unsupported);
  EXPECT_THAT(text, HasSubstr("does not carry the kernel of shift"));
}

TEST_F(Compiler, keeps_what_it_compiled) {
  std::string bytes;
  {
    CubinStore store(folder_);
    bytes = store.get(shift(), "sm_90a")->bytes;
    EXPECT_EQ(store.get(shift(), "sm_90a")->bytes, bytes);
    EXPECT_EQ(store.stats().compiled, 1);
    EXPECT_EQ(store.stats().from_memory, 1);
  }
  CubinStore store(folder_);
  const auto again = store.get(shift(), "sm_90a");
  EXPECT_EQ(again->bytes, bytes);
  EXPECT_EQ(again->kernels, compile(shift(), "sm_90a").kernels);
  EXPECT_EQ(store.stats().from_disk, 1);
  EXPECT_EQ(store.stats().compiled, 0);
}

TEST_F(Compiler, compiles_a_damaged_entry_again) {
  CubinStore(folder_).get(shift(), "sm_90a");
  const std::string good = read_text(only_file());
  std::vector<std::string> damaged{"", good.substr(0, good.size() / 2), good + "x", std::string(good.size(), '\0')};
  for (const size_t at : {size_t{3}, size_t{20}, good.size() / 2, good.size() - 1}) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 1);
  }
  for (const std::string& file : damaged) {
    std::ofstream(only_file(), std::ios::binary) << file;
    CubinStore store(folder_);
    EXPECT_EQ(to_file(*store.get(shift(), "sm_90a"), "").size() + 32, good.size());
    EXPECT_EQ(store.stats().compiled, 1) << file.size();
    EXPECT_EQ(read_text(only_file()), good);
  }
}

TEST_F(Compiler, keys_tell_apart_what_makes_another_kernel) {
  const std::string key = CubinStore::key(shift(), "sm_90a", "NVRTC 13.0");
  EXPECT_EQ(CubinStore::key({"another name", shift().code, {}}, "sm_90a", "NVRTC 13.0"), key);
  Source option = shift(), code = shift();
  option.options = {"-DN=1"};
  code.code += " ";
  for (const std::string& other :
       {CubinStore::key(option, "sm_90a", "NVRTC 13.0"), CubinStore::key(code, "sm_90a", "NVRTC 13.0"),
        CubinStore::key(shift(), "sm_80", "NVRTC 13.0"), CubinStore::key(shift(), "sm_90a", "NVRTC 12.8")})
    EXPECT_NE(other, key);
}

TEST_F(Compiler, threads_compile_each_source_once_and_only_those_that_ask_for_a_wrong_one_fail) {
  std::vector<Source> sources;
  for (int i = 0; i < 8; ++i) sources.push_back(shift("shift" + std::to_string(i)));
  sources[3].code += "nonsense";
  CubinStore store(folder_);
  std::vector<std::shared_ptr<const Cubin>> cubins(2 * sources.size());
  by_threads(4, cubins.size(), [&](size_t i) {
    try {
      cubins[i] = store.get(sources[i % sources.size()], "sm_80");
    } catch (const Error&) {  // its place stays empty
    }
  });
  for (size_t i = 0; i < cubins.size(); ++i) {
    EXPECT_EQ(cubins[i] == nullptr, i % sources.size() == 3) << i;
    if (!cubins[i]) continue;
    EXPECT_GT(cubins[i]->kernel("shift" + std::to_string(i % sources.size())).registers, 0);
  }
  EXPECT_EQ(store.stats().compiled, 7);
}

}  // namespace
}  // namespace smelt::device::cuda
