#include "base/error.h"
#include "ops/cuda/forms.h"

namespace smelt::ops {

std::vector<Form> attention_forms() {
  std::vector<Form> list;
  for (const bool interleaved : {false, true})
    list.push_back(Form("RotaryEmbedding", smelt_domain, {{"interleaved", int64_t{interleaved}}})
                       .in(DType::bf16, {4, 16, 1024, 32})
                       .in(DType::f32, {1024, 16})
                       .in(DType::f32, {1024, 16})
                       .out(DType::bf16, {4, 16, 1024, 32}));
  list.push_back(Form("JoinedRotary", smelt_domain)
                     .in(DType::bf16, {4, 16, 1024, 32})
                     .in(DType::bf16, {4, 4, 1024, 32})
                     .in(DType::bf16, {1024, 16})
                     .in(DType::bf16, {1024, 16})
                     .out(DType::bf16, {4, 16, 1024, 32})
                     .out(DType::bf16, {4, 4, 1024, 32}));
  struct Problem {
    DType type;
    int64_t heads, kv_heads, queries, keys, depth;
    std::string mask;  // its type; empty: none
  };
  const Problem problems[] = {{DType::f32, 12, 12, 197, 197, 64, ""},  {DType::f64, 2, 1, 10, 10, 24, "f64"},
                              {DType::f16, 8, 8, 4096, 4096, 40, ""},  {DType::f16, 32, 32, 512, 512, 128, ""},
                              {DType::bf16, 8, 8, 512, 512, 256, ""},  {DType::bf16, 16, 4, 1024, 1024, 32, "bf16"},
                              {DType::f16, 32, 8, 1, 2048, 128, "f16"}};
  for (const Problem& p : problems) {
    const bool wide = p.type == DType::f64;
    const std::string type = wide ? "f64" : "f32";
    const std::string program =
        p.mask.empty()   ? ""
        : p.mask == type ? fmt::format("(in0:{0}, in1:{0}) {{ %2 = add(in0, in1):{0}; return %2 }}", type)
                         : fmt::format("(in0:f32, in1:{}) {{ %2 = cast(in1):f32; %3 = add(in0, %2):f32; return %3 }}", p.mask);
    Form f("Attention", smelt_domain, {{"scale", 0.1f}}, program);
    f.in(p.type, {2, p.heads, p.queries, p.depth})
        .in(p.type, {2, p.kv_heads, p.keys, p.depth})
        .in(p.type, {2, p.kv_heads, p.keys, p.depth});
    if (!p.mask.empty()) f.in(*parse_dtype(p.mask), {1, 1, p.queries, p.keys});
    list.push_back(f.out(p.type, {2, p.heads, p.queries, p.depth}));
  }
  for (const int64_t kv_heads : {2, 8}) {
    Form f("CachedAttention", smelt_domain, {{"scale", 0.1f}});
    f.lacks = "sm_75";  // no cp.async
    f.in(DType::f16, {2, 8, 1, 128});
    for (const int64_t rows : {700, 700, 1, 1}) f.in(DType::f16, {2, kv_heads, rows, 128});
    f.out(DType::f16, {2, 8, 1, 128});
    for (int i = 0; i < 2; ++i) f.out(DType::f16, {2, kv_heads, 701, 128});
    list.push_back(f);
  }
  return list;
}

}  // namespace smelt::ops
