// The kernels' headers and what is printed for them, compiled for the architectures that smelt is for.
#include <gmock/gmock.h>

#include "base/error.h"
#include "device/cuda/ceilings.h"
#include "device/cuda/compiler.h"
#include "device/cuda/cutlass.h"
#include "expr/cuda.h"
#include "kernels/embedded.h"
#include "support/mma_kernel.h"

namespace smelt::device::cuda {
namespace {

class Kernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_missing().empty()) GTEST_SKIP() << compiler_missing();
  }
};

TEST_F(Kernels, every_header_compiles_by_itself) {
  ASSERT_FALSE(kernels::files().empty());
  for (const kernels::File& f : kernels::files()) {
    const bool cute = std::string_view(f.name).starts_with("conv/cute");  // with headers that the machine may lack, seconds each
    if (cute && !cutlass_headers().missing.empty()) continue;
    for (const std::string_view arch : {"sm_75", "sm_80", "sm_90a"}) {
      if (cute && arch != "sm_90a") continue;
      const std::vector<std::string> options = cute ? std::vector{cutlass_option()} : std::vector<std::string>();
      EXPECT_NO_THROW(compile({"alone", fmt::format("#include \"{}\"\n", f.name), options}, arch)) << f.name << ' ' << arch;
    }
  }
}

TEST_F(Kernels, tensor_core_products_compile_for_every_architecture) {
  for (const std::string_view arch : known_archs()) {
    const auto expect = [&](const char* a, const char* b, bool transposed, int bytes) {
      try {
        compile({fmt::format("{} {}", a, b), test::mma_kernel(a, b, transposed, bytes), {}}, arch);
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    };
    expect("f16", "f16", true, 16);
    expect("u8", "i8", false, 8);
    if (arch == "sm_75") continue;
    expect("bf16", "bf16", true, 4);
    expect("tf32", "tf32", false, 2);
  }
}

TEST_F(Kernels, that_measure_ceilings_compile_for_every_architecture_and_spill_nothing) {
  for (const std::string_view arch : known_archs()) {
    const Cubin cubin = compile(ceiling_kernels(), arch);
    const auto has = [&](std::string_view entry) {
      return std::ranges::find(cubin.kernels, entry, &KernelResources::entry) != cubin.kernels.end();
    };
    EXPECT_TRUE(has("copy") && has("read") && has("fma_f32") && has("mma_f16") && has("nothing")) << arch;
    EXPECT_EQ(has("mma_bf16"), arch != "sm_75") << arch;
    EXPECT_EQ(has("wgmma_f16"), arch == "sm_90a") << arch;
    for (const KernelResources& k : cubin.kernels) EXPECT_EQ(k.spill_store_bytes + k.stack_bytes, 0) << arch << ' ' << k.entry;
  }
}

// A kernel that calls every function that takes arguments of this type, once.
std::string all_functions(DType type) {
  std::string code = "#include \"common/expr.cuh\"\n", body;
  int count = 0;
  for (const expr::Fn fn : expr::functions()) {
    if (!expr::accepts(fn, type)) continue;
    expr::Program p;
    const int arity = expr::info(fn).arity;
    const bool select = expr::info(fn).name == "select";
    std::vector<expr::Ref> args;
    for (int i = 0; i < arity; ++i) args.push_back(p.input(select && i == 0 ? DType::boolean : type));
    p.output(arity == 1   ? p.call(fn, args[0])
             : arity == 2 ? p.call(fn, args[0], args[1])
                          : p.call(fn, args[0], args[1], args[2]));
    const std::string name = fmt::format("F{}", count++);
    code += expr::to_cuda(p, name);
    std::string call;
    for (int i = 0; i < arity; ++i) call += fmt::format("{}x[{}], ", select && i == 0 ? "(bool)" : "", i);
    body += fmt::format("  {{ {} y; {}::apply({}y); x[i] = ({})y; i += 1; }}\n", expr::cuda_type(p.type(p.outputs()[0])), name,
                        call, expr::cuda_type(type));
  }
  return code + fmt::format("extern \"C\" __global__ void all({}* x, int i) {{\n{}}}\n", expr::cuda_type(type), body);
}

TEST_F(Kernels, every_function_of_the_expression_language_compiles_in_every_type) {
  for (const DType type : {DType::f32, DType::f64, DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16,
                           DType::u32, DType::u64, DType::boolean}) {
    SCOPED_TRACE(name(type));
    try {
      compile({"all", all_functions(type), {}}, "sm_80");
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST_F(Kernels, every_conversion_compiles) {
  const std::vector<DType> types{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,  DType::i16,    DType::i32,
                                 DType::i64, DType::u8,  DType::u16, DType::u32,  DType::u64, DType::boolean};
  for (const char* arch : {"sm_75", "sm_90a"}) {
    std::string code = "#include \"common/expr.cuh\"\n", body;
    for (const DType from : types) {
      for (const DType to : types) {
        const std::string name = fmt::format("C{}_{}", smelt::name(from), smelt::name(to));
        code += expr::to_cuda(expr::conversion(from, to), name);
        body += fmt::format("  {{ {} y; {}::apply((({}*)x)[i], y); (({}*)x)[++i] = y; }}\n", expr::cuda_type(to), name,
                            expr::cuda_type(from), expr::cuda_type(to));
      }
    }
    code += fmt::format("extern \"C\" __global__ void all(void* x, int i) {{\n{}}}\n", body);
    try {
      compile({"all", code, {}}, arch);
    } catch (const Error& e) {
      ADD_FAILURE() << arch << ": " << e.what();
    }
  }
}

}  // namespace
}  // namespace smelt::device::cuda
