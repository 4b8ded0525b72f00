// The GPU's kernels compiled for every architecture that smelt is for, without a GPU: each family in a few forms, nothing
// spilled, and hardly more registers than the architecture's table says (tests/ops/cuda_resources).
#include <filesystem>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "ops/cuda_forms.h"
#include "ops/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

std::vector<Form> forms() {
  std::vector<Form> list;
  list.push_back(Form("Pointwise", smelt_domain, {},
                      "(in0:bf16, in1:bf16) { %2 = cast(in0):f32; %3 = silu(%2):f32; %4 = cast(in1):f32; %5 = mul(%3, %4):f32; "
                      "%6 = cast(%5):bf16; return %6 }")
                     .in(DType::bf16, {64, 1408}).in(DType::bf16, {64, 1408}).out(DType::bf16, {64, 1408}));
  list.push_back(
      Form("Pointwise", smelt_domain, {}, "(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = gelu(%2):f32; return %3 }")
          .in(DType::f32, {2, 3, 5, 7})
          .in(DType::f32, {3, 1, 7})
          .out(DType::f32, {2, 3, 5, 7}));
  list.push_back(Form("Transpose", "", {{"perm", std::vector<int64_t>{0, 2, 3, 1}}})
                     .in(DType::f16, {2, 64, 14, 14})
                     .out(DType::f16, {2, 14, 14, 64}));
  list.push_back(Form("Reorder", smelt_domain).in(DType::f16, {1, 3, 224, 224}).out(DType::f16, {1, 3, 224, 224}, Layout::nhwc));
  for (const char* kind : {"rms", "layer"})
    for (const int64_t width : {512, 4099, 8192})
      list.push_back(Form("Norm", smelt_domain, {{"kind", std::string(kind)}})
                         .in(DType::bf16, {48, width})
                         .in(DType::bf16, {48, width})
                         .in(DType::bf16, {width})
                         .in(*kind == 'l' ? DType::bf16 : DType::undefined, {width})
                         .out(DType::bf16, {48, width})
                         .out(DType::bf16, {48, width}));
  const std::string bias_gelu =
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = gelu(%3):f32; %5 = cast(%4):f16; return %5 }";
  list.push_back(Form("MatMul", smelt_domain, {}, bias_gelu)
                     .in(DType::f16, {197, 768}).in(DType::f16, {768, 3072}).in(DType::f16, {3072}).out(DType::f16, {197, 3072}));
  list.push_back(Form("MatMul", smelt_domain, {{"transB", int64_t{1}}})
                     .in(DType::bf16, {2, 12, 64, 40}).in(DType::bf16, {2, 12, 66, 40}).out(DType::bf16, {2, 12, 64, 66}));
  list.push_back(Form("MatMul", "").in(DType::f32, {2, 4096}).in(DType::f32, {4096, 1000}).out(DType::f32, {2, 1000}));
  Form quantized("MatMulInteger", "");
  quantized.in(DType::u8, {384, 768}).in(DType::i8, {768, 3072}).out(DType::i32, {384, 3072});
  quantized.bound.inputs[1].constant = Tensor::zeros(DType::i8, {768, 3072});
  list.push_back(std::move(quantized));
  for (Form& f : data_forms()) list.push_back(std::move(f));
  for (Form& f : attention_forms()) list.push_back(std::move(f));
  for (Form& f : image_forms()) list.push_back(std::move(f));
  return list;
}

/// Registers a thread of each kernel, by "PROBLEM TACTIC CONFIGURATION: ENTRY". As a file: the compiler's version, then a line a
/// kernel.
struct Resources {
  std::string compiler;
  std::map<std::string, int> registers;

  std::string print() const {
    std::string text = compiler + "\n";
    for (const auto& [kernel, count] : registers) text += fmt::format("{:3}  {}\n", count, kernel);
    return text;
  }
  static Resources parse(const std::string& text) {
    Resources r;
    std::istringstream in(text);
    std::getline(in, r.compiler);
    int count = 0;
    for (std::string kernel; in >> count && std::getline(in >> std::ws, kernel);) r.registers[kernel] = count;
    return r;
  }
};

/// Of every form's candidates: all of them for sm_90a, the first elsewhere. A failed expectation for what spills.
Resources compile_forms(std::string_view arch) {
  Resources all{device::cuda::compiler_version(), {}};
  for (Form& f : forms()) {
    f.bound.node = &f.node;
    Machine machine;
    const auto gpu = std::make_shared<Gpu>(*gpu_of_arch(arch));
    gpu->untried = true;
    machine.gpu = gpu;
    std::set<std::shared_ptr<const device::cuda::Cubin>> known;
    const Offer o = offer(f.bound, machine);
    for (const Candidate& c : o.candidates) {
      if (arch != "sm_90a" && &c != &o.candidates.front()) break;
      const std::string name = fmt::format("{} {} {}", o.problem, c.tactic, c.config);
      SCOPED_TRACE(name);
      try {
        c.prepare();
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
      for (const auto& [key, cubin] : machine.gpu->cubins->in_memory()) {
        if (!known.insert(cubin).second) continue;
        for (const device::cuda::KernelResources& k : cubin->kernels) {
          EXPECT_EQ(k.spill_store_bytes + k.spill_load_bytes, 0) << k.entry;
          EXPECT_EQ(k.stack_bytes, 0) << k.entry;
          int& registers = all.registers[name + ": " + k.entry];
          registers = std::max(registers, k.registers);
        }
      }
    }
  }
  return all;
}

class CudaKernels : public ::testing::TestWithParam<std::string_view> {};

TEST_P(CudaKernels, spill_nothing_and_keep_to_the_table_of_registers) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  constexpr int granted = 8;   // registers above the table: one step of their allocation to a warp
  const std::string file = fmt::format("tests/ops/cuda_resources/{}.txt", GetParam());
  const Resources now = compile_forms(GetParam());
  const std::filesystem::path written = std::filesystem::path(SMELT_BINARY_DIR) / file;
  std::filesystem::create_directories(written.parent_path());
  write_text(written, now.print());
  const std::filesystem::path kept = std::filesystem::path(SMELT_SOURCE_DIR) / file;
  const Resources table = std::filesystem::exists(kept) ? Resources::parse(read_text(kept)) : Resources{now.compiler, {}};
  if (table.compiler != now.compiler) GTEST_SKIP() << "spills checked; registers not: the table is of " << table.compiler;
  std::string differences;
  for (const auto& [kernel, registers] : now.registers) {
    const auto row = table.registers.find(kernel);
    if (row == table.registers.end())
      differences += fmt::format("not in the table: {}\n", kernel);
    else if (registers > row->second + granted)
      differences += fmt::format("{} registers, not {}: {}\n", registers, row->second, kernel);
  }
  for (const auto& [kernel, registers] : table.registers)
    if (!now.registers.contains(kernel)) differences += fmt::format("no longer there: {}\n", kernel);
  EXPECT_TRUE(differences.empty()) << differences << "If that is meant: cp " << written.string() << " " << kept.string();
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaKernels,
                         ::testing::ValuesIn(device::cuda::known_archs().begin(), device::cuda::known_archs().end()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt::ops
