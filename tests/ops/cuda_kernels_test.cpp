// The GPU's kernels compiled for every architecture that smelt is for, without a GPU: each family in a few forms, no registers
// spilled.
#include "base/error.h"
#include "ops/gpu.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

std::shared_ptr<const Gpu> gpu_for(std::string_view arch) {
  auto gpu = std::make_shared<Gpu>();
  std::tie(gpu->info.major, gpu->info.minor) = device::cuda::capability_of(arch);
  gpu->info.arch = arch;
  gpu->info.multiprocessors = 132;
  static const auto cubins = std::make_shared<device::cuda::CubinStore>();
  gpu->cubins = cubins;
  return gpu;
}

/// A node with tensors of these types and shapes; nothing is computed.
struct Form {
  Node node;
  BoundNode bound;

  Form(std::string op, std::string_view domain, std::map<std::string, Attribute> attributes = {},
       const std::string& program = {}) {
    node.op = std::move(op);
    node.domain = domain;
    node.attrs = std::move(attributes);
    if (!program.empty()) node.program = expr::Program::parse(program);
  }
  Form& in(DType type, Shape shape, Layout layout = Layout::plain) {
    node.inputs.push_back(type == DType::undefined ? ValueId::none : ValueId(static_cast<int>(node.inputs.size())));
    bound.inputs.push_back({type, std::move(shape), layout, {}, {}});
    return *this;
  }
  Form& out(DType type, Shape shape, Layout layout = Layout::plain) {
    node.outputs.push_back(ValueId(100 + static_cast<int>(node.outputs.size())));
    bound.outputs.push_back({type, std::move(shape), layout, {}, {}});
    return *this;
  }
};

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
  return list;
}

class CudaKernels : public ::testing::TestWithParam<std::string_view> {};

TEST_P(CudaKernels, compile_and_spill_nothing) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  Machine machine;
  machine.gpu = gpu_for(GetParam());
  for (Form& f : forms()) {
    f.bound.node = &f.node;
    const Offer o = offer(f.bound, machine);
    ASSERT_FALSE(o.candidates.empty()) << o.problem;
    for (const Candidate& c : o.candidates) {
      if (GetParam() != "sm_90a" && &c != &o.candidates.front()) break;   // all of them once, one of each everywhere
      SCOPED_TRACE(o.problem + " " + c.tactic + " " + c.config);
      try {
        const auto kernel = c.prepare();
        if (const auto* compiled = dynamic_cast<const CompiledKernel*>(kernel.get())) {
          EXPECT_EQ(compiled->resources().spill_store_bytes, 0);
          EXPECT_EQ(compiled->resources().stack_bytes, 0);
        }
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaKernels,
                         ::testing::ValuesIn(device::cuda::known_archs().begin(), device::cuda::known_archs().end()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt::ops
