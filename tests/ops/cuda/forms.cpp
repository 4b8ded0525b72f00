#include "ops/cuda/forms.h"

#include <fmt/format.h>

#include <cctype>

#include "ops/cuda/gpu.h"

namespace smelt::ops {

device::cuda::Cubin uncompiled(const device::cuda::Source& source) {
  device::cuda::Cubin cubin;
  constexpr std::string_view kernel = "extern \"C\" __global__";
  for (size_t at = source.code.find(kernel); at != source.code.npos; at = source.code.find(kernel, at)) {
    at += kernel.size();
    // The name stands before the parenthesis that opens the parameters; __launch_bounds__ has parentheses of its own.
    size_t open = source.code.find('(', at);
    constexpr std::string_view bounds = "__launch_bounds__";
    if (const size_t b = source.code.find(bounds, at); b < open) open = source.code.find('(', source.code.find(')', open));
    size_t begin = open;
    while (std::isalnum(static_cast<unsigned char>(source.code[begin - 1])) || source.code[begin - 1] == '_') --begin;
    cubin.kernels.push_back({.entry = source.code.substr(begin, open - begin)});
  }
  return cubin;
}

void each_source(std::string_view arch, const std::function<void(const std::string& name, const device::cuda::Source&)>& visit,
                 Candidates candidates) {
  for (Form& f : all_forms()) {
    if (!f.has_kernels_on(arch)) continue;
    f.bound.node = &f.node;
    std::string name;
    const auto gpu = std::make_shared<Gpu>(*gpu_of_arch(arch));
    gpu->info.l2_bytes = 1 << 20;  // small problems have the kernels of large ones
    gpu->cubins = std::make_shared<device::cuda::CubinStore>("", [&](const device::cuda::Source& source, std::string_view) {
      visit(name, source);
      return uncompiled(source);
    });
    Machine machine;
    machine.gpu = gpu;
    const Offer o = offer(f.bound, machine);
    for (const Candidate& c : o.candidates) {
      if (candidates == Candidates::first && &c != &o.candidates.front()) break;
      name = fmt::format("{} {} {}", o.problem, c.tactic, c.config);
      c.prepare();
    }
  }
}

std::vector<Form> all_forms() {
  std::vector<Form> list;
  list.push_back(Form("Pointwise", smelt_domain, {},
                      "(in0:bf16, in1:bf16) { %2 = cast(in0):f32; %3 = silu(%2):f32; %4 = cast(in1):f32; %5 = mul(%3, %4):f32; "
                      "%6 = cast(%5):bf16; return %6 }")
                     .in(DType::bf16, {64, 1408})
                     .in(DType::bf16, {64, 1408})
                     .out(DType::bf16, {64, 1408}));
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
                     .in(DType::f16, {197, 768})
                     .in(DType::f16, {768, 3072})
                     .in(DType::f16, {3072})
                     .out(DType::f16, {197, 3072}));
  list.push_back(Form("MatMul", smelt_domain, {{"transB", int64_t{1}}})
                     .in(DType::bf16, {2, 12, 64, 40})
                     .in(DType::bf16, {2, 12, 66, 40})
                     .out(DType::bf16, {2, 12, 64, 66}));
  list.push_back(Form("MatMul", "").in(DType::f16, {16, 2048}).in(DType::f16, {2048, 512}).out(DType::f16, {16, 512}));
  list.push_back(Form("MatMul", "").in(DType::f32, {2, 4096}).in(DType::f32, {4096, 1000}).out(DType::f32, {2, 1000}));
  list.push_back(Form("MatMul", "").in(DType::f64, {3, 70, 50}).in(DType::f64, {50, 90}).out(DType::f64, {3, 70, 90}));
  list.push_back(Form("MatMul", "").in(DType::i64, {70, 50}).in(DType::i64, {50, 90}).out(DType::i64, {70, 90}));
  Form quantized("MatMulInteger", "");
  quantized.in(DType::u8, {384, 768}).in(DType::i8, {768, 3072}).out(DType::i32, {384, 3072});
  quantized.bound.inputs[1].constant = Tensor::zeros(DType::i8, {768, 3072});
  list.push_back(std::move(quantized));
  // Of two computed matrices of 8 bits: scores, with zero points of both; what they weigh, of rows that begin anywhere, across K; zero
  // points that the run computes; and what Hopper's own instructions take.
  const std::string requantised =
      "(in0:f32) { %1 = const(0.05):f32; %2 = div(in0, %1):f32; %3 = round(%2):f32; %4 = const(121):f32; %5 = add(%3, %4):f32; "
      "%6 = const(0):f32; %7 = const(255):f32; %8 = clip(%5, %6, %7):f32; %9 = cast(%8):u8; return %9 }";
  const Tensor scale = Tensor::scalar(0.01f), zero = Tensor::scalar<uint8_t>(117);
  list.push_back(Form("QLinearMatMul", smelt_domain, {{"transB", int64_t{1}}}, requantised)
                     .in(DType::u8, {2, 12, 384, 64})
                     .in(DType::u8, {2, 12, 384, 64})
                     .in(scale)
                     .in(zero)
                     .in(scale)
                     .in(zero)
                     .out(DType::u8, {2, 12, 384, 384}));
  list.push_back(Form("QLinearMatMul", smelt_domain, {}, requantised)
                     .in(DType::u8, {1, 12, 197, 197})
                     .in(DType::i8, {1, 12, 197, 64})
                     .in(scale)
                     .in(DType::undefined, {})
                     .in(scale)
                     .in(Tensor::scalar<int8_t>(-3))
                     .out(DType::u8, {1, 12, 197, 64}));
  list.push_back(Form("MatMulInteger", "")
                     .in(DType::u8, {3, 40, 100})
                     .in(DType::u8, {3, 100, 60})
                     .in(DType::u8, {})
                     .in(DType::u8, {1})
                     .out(DType::i32, {3, 40, 60}));
  list.push_back(Form("QLinearMatMul", smelt_domain, {{"transA", int64_t{1}}, {"transB", int64_t{1}}})
                     .in(DType::i8, {128, 512})
                     .in(DType::i8, {256, 128})
                     .in(scale)
                     .in(DType::undefined, {})
                     .in(scale)
                     .in(DType::undefined, {})
                     .out(DType::f32, {512, 256}));
  Form along_k("QLinearMatMul", smelt_domain, {{"transB", int64_t{1}}});
  along_k.in(DType::i8, {12, 512, 64}).in(DType::i8, {12, 512, 64}).in(scale).in(DType::undefined, {}).in(scale);
  along_k.in(DType::undefined, {}).out(DType::f32, {12, 512, 512});
  along_k.arch = "sm_90a";
  list.push_back(std::move(along_k));
  Form floats("MatMul", smelt_domain, {}, "(in0:f32) { %1 = cast(in0):f16; return %1 }");
  floats.in(DType::f8e4m3fn, {384, 768}).in(Tensor::zeros(DType::f8e4m3fn, {768, 3072})).out(DType::f16, {384, 3072});
  floats.arch = "sm_90a";
  list.push_back(std::move(floats));
  Form turns("MatMul", smelt_domain, {}, bias_gelu);  // groups that take turns, whose tiles tensor maps store
  turns.in(DType::f16, {4096, 512}).in(DType::f16, {512, 1408}).in(DType::f16, {1408}).out(DType::f16, {4096, 1408});
  turns.arch = "sm_90a";
  list.push_back(std::move(turns));
  Form normed("MatMul", smelt_domain, {{"norm", std::string("layer")}, {"norm_epsilon", 1e-5f}}, bias_gelu);
  normed.in(DType::f16, {197, 768})
      .in(Tensor::zeros(DType::f16, {768, 3072}))
      .in(DType::f16, {3072})
      .out(DType::f16, {197, 3072});
  normed.arch = "sm_90a";
  list.push_back(std::move(normed));
  for (Form& f : data_forms()) list.push_back(std::move(f));
  for (Form& f : attention_forms()) list.push_back(std::move(f));
  for (Form& f : image_forms()) list.push_back(std::move(f));
  return list;
}

}  // namespace smelt::ops
