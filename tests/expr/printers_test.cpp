#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expr/cuda.h"
#include "expr/onnx.h"
#include "expr/post_ops.h"

namespace smelt::expr {
namespace {

using testing::HasSubstr;

std::string text(const OnnxCode& code) {
  std::string s;
  for (const OnnxNode& n : code.nodes) {
    s += std::to_string(n.output) + "=" + n.op;
    for (const auto& [key, v] : n.ints) s += "[" + key + "=" + std::to_string(v) + "]";
    for (const auto& [key, v] : n.strings) s += "[" + key + "=" + v + "]";
    for (int32_t i : n.inputs) s += " " + std::to_string(i);
    s += ":" + std::string(name(n.type)) + "; ";
  }
  for (int32_t o : code.outputs) s += "return " + std::to_string(o);
  return s;
}

TEST(OnnxPrinter, nests_operators_and_writes_each_constant_once) {
  const Program p = Program::parse("(in0:f16) { %1 = cast(in0):f32; %2 = leaky_relu(%1, %1):f32; %3 = gelu(%2):f32; return %3 }");
  EXPECT_EQ(text(to_onnx(p)),
            "1=Cast 0:f32; 2=Constant:f32; 3=Less 1 2:bool; 4=Mul 1 1:f32; 5=Where 3 4 1:f32; 6=Constant:f32; 7=Mul 5 6:f32; "
            "8=Constant:f32; 9=Mul 5 8:f32; 10=Erf 9:f32; 11=Constant:f32; 12=Add 10 11:f32; 13=Mul 7 12:f32; return 13");
}

TEST(OnnxPrinter, chooses_the_integer_form_keeps_attributes_and_leaves_dead_code_out) {
  const Program p =
      Program::parse("(in0:u8, in1:u8) { %2 = add(in0, in1):u8; %3 = shift_left(in0, in1):u8; %4 = relu(%3):u8; return %4 }");
  EXPECT_EQ(text(to_onnx(p)), "2=BitShift[direction=LEFT] 0 1:u8; 3=Constant:u8; 4=Max 2 3:u8; return 4");
}

TEST(OnnxPrinter, knows_every_function_of_the_table) {
  for (Fn fn : functions()) {
    for (DType t : {DType::f32, DType::u32, DType::boolean}) {
      if (!accepts(fn, t)) continue;
      Program p;
      const Ref a = p.input(fn == Fn::select ? DType::boolean : t), b = p.input(t), c = p.input(t);
      p.output(info(fn).arity == 1 ? p.call(fn, a) : info(fn).arity == 2 ? p.call(fn, a, b) : p.call(fn, a, b, c));
      const OnnxCode code = to_onnx(p);
      ASSERT_FALSE(code.nodes.empty()) << info(fn).name;
      EXPECT_EQ(code.nodes.back().type, p.type(p.outputs()[0])) << info(fn).name;
    }
  }
}

std::vector<PostOp> chain(const char* program) {
  auto r = to_post_ops(Program::parse(program));
  if (r) return *r;
  ADD_FAILURE() << r.refusal().text;
  return {};
}
std::string reason(const char* program) {
  auto r = to_post_ops(Program::parse(program));
  return r ? "a chain" : r.refusal().text;
}

TEST(PostOps, a_bias_an_activation_and_a_residual_are_a_chain) {
  const auto ops = chain(
      "(in0:f32, in1:f32, in2:f16) { %3 = add(in1, in0):f32; %4 = const(0.1):f32; %5 = leaky_relu(%3, %4):f32; %6 = "
      "cast(in2):f32; %7 = add(%5, %6):f32; %8 = cast(%7):f16; return %8 }");
  const std::vector<PostOp> expected = {{PostOp::Kind::binary, Fn::add, 0, 0, 1},
                                        {PostOp::Kind::eltwise, Fn::leaky_relu, 0.1f, 0, -1},
                                        {PostOp::Kind::binary, Fn::add, 0, 0, 2}};
  EXPECT_EQ(ops, expected);
}

TEST(PostOps, numbers_are_eltwise_and_no_steps_are_an_empty_chain) {
  const std::vector<PostOp> expected = {{PostOp::Kind::eltwise, Fn::mul, 2, 0, -1}, {PostOp::Kind::eltwise, Fn::clip, 0, 6, -1}};
  EXPECT_EQ(chain("(in0:f32) { %1 = const(2):f32; %2 = mul(in0, %1):f32; %3 = const(0):f32; %4 = const(6):f32; %5 = clip(%2, %3, "
                  "%4):f32; return %5 }"),
            expected);
  EXPECT_TRUE(chain("(in0:f32) { return in0 }").empty());
}

TEST(PostOps, what_is_no_chain_says_why) {
  EXPECT_THAT(reason("(in0:f32) { %1 = sigmoid(in0):f32; %2 = mul(in0, %1):f32; return %2 }"),
              HasSubstr("%2 reads %1, which is neither"));
  EXPECT_THAT(reason("(in0:f32, in1:f32) { %2 = sub(in1, in0):f32; return %2 }"), HasSubstr("does not come from in0"));
  EXPECT_THAT(reason("(in0:f32) { %1 = relu(in0):f32; return %1, in0 }"), HasSubstr("2 outputs"));
  EXPECT_THAT(reason("(in0:f64) { return in0 }"), HasSubstr("in0 is f64"));
  EXPECT_THAT(reason("(in0:f32) { %1 = cast(in0):f16; %2 = cast(%1):f32; %3 = relu(%2):f32; return %3 }"),
              HasSubstr("%1 rounds in the middle"));
  EXPECT_THAT(reason("(in0:f32, in1:f32) { %2 = leaky_relu(in0, in1):f32; return %2 }"), HasSubstr("not a number"));
  EXPECT_THAT(reason("(in0:f32, in1:f32) { %2 = pow(in0, in1):f32; return %2 }"), HasSubstr("pow is no post-operation"));
}

TEST(CudaPrinter, writes_one_function_of_one_element) {
  const Program p = Program::parse(
      "(in0:f32, in1:f16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; %4 = relu(%3):f32; %5 = const(0.5):f32; %6 = mul(%4, "
      "%5):f32; %7 = cast(%6):f16; return %7 }");
  EXPECT_EQ(to_cuda(p, "Epilogue"),
            "struct Epilogue {\n"
            "  template <class A, class T> static __device__ __forceinline__ auto fn_add(A a, T b, T c) { using namespace "
            "smelt_expr; return a + b; }\n"
            "  template <class A, class T> static __device__ __forceinline__ auto fn_relu(A a, T b, T c) { using namespace "
            "smelt_expr; return nan_max(a, T(0)); }\n"
            "  template <class A, class T> static __device__ __forceinline__ auto fn_mul(A a, T b, T c) { using namespace "
            "smelt_expr; return a * b; }\n"
            "  static __device__ __forceinline__ void apply(float v0, f16 v1, f16& out0) {\n"
            "    const float v2 = f32(v1);\n"
            "    const float v3 = (float)fn_add(v0, v2, v2);\n"
            "    const float v4 = (float)fn_relu(v3, v3, v3);\n"
            "    const float v5 = 0x1p-1f;\n"
            "    const float v6 = (float)fn_mul(v4, v5, v5);\n"
            "    const f16 v7 = f16_of(v6);\n"
            "    out0 = v7;\n"
            "  }\n"
            "};\n");
}

TEST(CudaPrinter, saturates_floats_to_integers_and_spells_what_is_no_number) {
  EXPECT_THAT(to_cuda(conversion(DType::f32, DType::i8), "C"),
              HasSubstr("smelt_expr::saturated<signed char, float>(v0, 0x1p+7f, (signed char)(~(signed char)(~0ull >> 57)), "
                        "(signed char)(~0ull >> 57))"));
  EXPECT_THAT(to_cuda(Program::parse("() { %0 = const(-inf):f32; return %0 }"), "C"), HasSubstr("-__int_as_float(0x7f800000)"));
}

TEST(CudaPrinter, rounds_and_saturates_to_8_bits_in_one_call) {
  const auto text = [](const std::string& before, const char* x, const char* type = "u8", int zero = 7, int last = 255,
                       std::vector<double> most = {}) {
    return to_cuda(
        Program::parse(fmt::format("(in0:i32, in1:f32) {{ %2 = cast(in0):f32; %3 = mul(%2, in1):f32; {}%10 = round({}):f32; "
                                   "%11 = const({}):f32; %12 = add(%10, %11):f32; %13 = const({}):f32; %14 = const({}):f32; "
                                   "%15 = clip(%12, %13, %14):f32; %16 = cast(%15):{}; return %16 }}",
                                   before, x, zero, last - 255, last, type)),
        "P", most);
  };
  const std::string six =
      "%4 = relu(%3):f32; %5 = const(2):f32; %6 = const(2):f32; %7 = const(2):f32; %8 = const(2):f32; %9 = const(2):f32; ";
  EXPECT_THAT(text(six, "%3"), HasSubstr("smelt_expr::quantized<unsigned char, false, false>(v3, 0x1.cp+2f)"));
  EXPECT_THAT(text(six, "%4"), HasSubstr("quantized<unsigned char, false, true>(v3, 0x1.cp+2f)"));
  const double any = std::numeric_limits<double>::infinity();
  EXPECT_THAT(text(six, "%4", "i8", -128, 127, {any, 0.5}), HasSubstr("quantized<signed char, true, true>(v3, -0x1p+7f)"));
  EXPECT_THAT(text(six, "%4", "i8", -128, 127, {any, 1e38}), HasSubstr("quantized<signed char, false, true>"));
  const std::string near = text(six, "%3", "u8", 7, 255, {1e6, 0.5});  // saturated where it is stored
  EXPECT_THAT(near, HasSubstr("const auto v16 = smelt_expr::quantized_near<unsigned char, false>(v3, 0x1.cp+2f);"));
  EXPECT_THAT(near, HasSubstr("apply(int v0, float v1, auto& out0)"));
  EXPECT_THAT(near, HasSubstr("static constexpr bool unsaturated = true;"));
  EXPECT_THAT(text(six, "%4", "i8", -128, 127, {2e6, 1.0}), HasSubstr("quantized_near<signed char, true>(v3, -0x1p+7f)"));
  EXPECT_THAT(text(six, "%3", "u8", 7, 255, {2.1e6, 1.0}), HasSubstr("quantized<unsigned char, true, false>"));
  EXPECT_THAT(text(six, "%3", "u8", 7, 127), Not(HasSubstr("quantized<")));  // saturated elsewhere
  EXPECT_THAT(text(six, "%3", "u8", 300), Not(HasSubstr("quantized<")));
}

TEST(CudaPrinter, takes_zero_points_off_bytes_in_floats) {
  const auto text = [](const char* type, const char* from, const char* less) {
    return to_cuda(Program::parse(fmt::format(
                       "(in0:f32, in1:{}) {{ %2 = round(in0):f32; %3 = const(7):f32; %4 = add(%2, %3):f32; %5 = const(0):f32; "
                       "%6 = const(255):f32; %7 = clip(%4, %5, %6):f32; %8 = cast(%7):u8; %9 = cast({}):i32; "
                       "%10 = const({}):i32; %11 = sub(%9, %10):i32; %12 = cast(%11):f32; return %12 }}",
                       type, from, less)),
                   "P");
  };
  EXPECT_THAT(text("u8", "%8", "7"),
              HasSubstr("const float v12 = smelt_expr::requantized<unsigned char, false, false>(v0, 0x1.cp+2f, 0x1.cp+2f);"));
  EXPECT_THAT(text("u8", "%8", "7"), HasSubstr("apply(float v0, unsigned char v1, float& out0)"));
  for (const auto& [type, name] : {std::pair{"u8", "unsigned char"}, {"i8", "signed char"}}) {
    EXPECT_THAT(text(type, "in1", "9"), HasSubstr("const float v12 = smelt_expr::float_of_byte(b1, 0x1.2p+3f);"));
    EXPECT_THAT(text(type, "in1", "9"), HasSubstr("apply(float v0, auto b1, float& out0)"));
    EXPECT_THAT(text(type, "in1", "9"), HasSubstr(fmt::format("const {} v1 = b1;", name)));
  }
  EXPECT_THAT(text("i16", "in1", "9"), HasSubstr("const float v12 = (float)(v11);"));
  EXPECT_THAT(text("u8", "in1", "256"), HasSubstr("const float v12 = (float)(v11);"));
}

TEST(CudaPrinter, divides_what_is_rounded_by_a_constant_in_three_instructions) {
  const auto text = [](const char* by, const char* after, const char* result, double most) {
    const double all[] = {most};
    return to_cuda(
        Program::parse(fmt::format("(in0:f32) {{ %1 = const({}):f32; %2 = div(in0, %1):f32; {} return {} }}", by, after, result)),
        "P", all);
  };
  const char* const round = "%3 = round(%2):f32;";
  EXPECT_THAT(text("0.25", round, "%3", 1e6), HasSubstr("const float v2 = smelt::kernels::over(v0, 0x1p-2f, 0x1p+2f);"));
  EXPECT_THAT(text("-3", "%3 = relu(%2):f32; %4 = round(%3):f32;", "%4", 1e6),
              HasSubstr("over(v0, -0x1.8p+1f, -0x1.555556p-2f)"));
  const auto divided = HasSubstr("(float)fn_div(v0, v1, v1)");
  EXPECT_THAT(text("0.25", round, "%2", 1e6), divided);  // a result itself
  EXPECT_THAT(text("0.25", "%3 = round(%2):f32; %4 = add(%2, %3):f32;", "%4", 1e6), divided);
  EXPECT_THAT(text("0.25", "%3 = relu(%2):f32; %4 = neg(%3):f32;", "%4", 1e6), divided);
  EXPECT_THAT(text("0.25", round, "%3", std::numeric_limits<double>::infinity()), divided);
  EXPECT_THAT(text("1e-30", round, "%3", 1e6), divided);   // steps of over() may lose bits
  EXPECT_THAT(text("1e-10", round, "%3", 1e35), divided);  // infinite quotients
  EXPECT_THAT(text("0", round, "%3", 1e6), divided);
  // Of any number, where all that is beyond some bound is saturated.
  constexpr double any = std::numeric_limits<double>::infinity();
  const char* const saturated =
      "%3 = round(%2):f32; %4 = const(7):f32; %5 = add(%3, %4):f32; %6 = const(0):f32; %7 = const(255):f32; "
      "%8 = clip(%5, %6, %7):f32; %9 = cast(%8):u8;";
  const auto bounded = HasSubstr("over(smelt_expr::nan_min(smelt_expr::nan_max(v0, -0x1p+8f), 0x1p+8f), 0x1p-2f, 0x1p+2f)");
  EXPECT_THAT(text("0.25", saturated, "%9", any), bounded);
  EXPECT_THAT(text("0.25", saturated, "%9", 1e6), Not(bounded));
  for (const char* result : {"%2", "%3", "%5", "%8"}) EXPECT_THAT(text("0.25", saturated, result, any), divided) << result;
  EXPECT_THAT(text("0.25", (std::string(saturated) + " %10 = exp(%3):f32;").c_str(), "%9", any), divided);
  // What stands before the quotient bounds it: gates, activations, the larger of two.
  for (const char* before : {"%1 = sigmoid(in0):f32; ", "%1 = tanh(in0):f32; ", "%1 = silu(in0):f32; ",
                             "%1 = hard_swish(in0):f32; ", "%1 = abs(in0):f32; ", "%1 = max(in0, in0):f32; ",
                             "%1 = hard_sigmoid(in0, in0, in0):f32; ", "%1 = leaky_relu(in0, in0):f32; "}) {
    const Program p =
        Program::parse(fmt::format("(in0:f32) {{ {}%2 = const(0.25):f32; %3 = div(%1, %2):f32; %4 = round(%3):f32; "
                                   "return %4 }}",
                                   before));
    const double known[] = {100};
    EXPECT_THAT(to_cuda(p, "P", known), HasSubstr("over(v1,")) << before;
    EXPECT_THAT(to_cuda(p, "P"), Not(HasSubstr("over("))) << before;  // it may be NaN
  }
}

}  // namespace
}  // namespace smelt::expr
