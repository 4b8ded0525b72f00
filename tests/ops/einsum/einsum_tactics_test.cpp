// Einsum on the processor, as a product, a copy or loops, against the reference.
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

std::vector<std::string> ran(const std::string& equation, const std::vector<Shape>& shapes, DType type = DType::f32) {
  Trial t;
  t.node.op = "Einsum";
  t.node.opset = 13;
  t.node.attrs["equation"] = equation;
  for (size_t i = 0; i < shapes.size(); ++i) t.add(random_tensor(type, shapes[i], static_cast<uint32_t>(i)), false);
  const Tensor y = expected(t);
  t.result(y.type(), y.shape());
  SCOPED_TRACE(equation);
  return check(t, type == DType::f64 ? 1e-13 : type == DType::f32 ? 1e-5 : 1e-2);
}

TEST(EinsumTactics, are_matrix_products_where_the_loops_are) {
  for (const DType type : {DType::f32, DType::f16}) {
    EXPECT_FALSE(ran("ij,jk->ik", {{17, 33}, {33, 20}}, type).empty());
    EXPECT_FALSE(ran("bhid,bhjd->bhij", {{2, 3, 17, 8}, {2, 3, 19, 8}}, type).empty());
    EXPECT_FALSE(ran("bhij,bhjd->bihd", {{2, 3, 17, 19}, {2, 3, 19, 8}}, type).empty());
    EXPECT_FALSE(ran("...ab,bc->...ac", {{2, 3, 5, 7}, {7, 4}}, type).empty());
    EXPECT_FALSE(ran("abc,cde->abde", {{2, 3, 16}, {16, 5, 6}}, type).empty());
  }
  EXPECT_FALSE(ran("i,j->ij", {{17}, {33}}).empty());
  EXPECT_FALSE(ran("ii,ij->ij", {{9, 9}, {9, 20}}).empty());
}

TEST(EinsumTactics, copy_and_loop_otherwise) {
  EXPECT_FALSE(ran("ij->ji", {{17, 33}}).empty());
  EXPECT_FALSE(ran("bii->bi", {{3, 9, 9}}).empty());
  EXPECT_FALSE(ran("ij->i", {{17, 33}}).empty());
  EXPECT_FALSE(ran("ij,kl->i", {{5, 6}, {7, 8}}).empty());
  EXPECT_FALSE(ran("ij,jk,kl->il", {{5, 6}, {6, 7}, {7, 8}}).empty());
  EXPECT_FALSE(ran("ij,jk->ik", {{5, 6}, {6, 7}}, DType::f64).empty());
}

}  // namespace
}  // namespace smelt::ops
