// Einsum on the processor, as a product, a copy or a chain of steps, against the reference.
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

TEST(EinsumTactics, copy_and_go_step_by_step_otherwise) {
  EXPECT_FALSE(ran("ij->ji", {{17, 33}}).empty());
  EXPECT_FALSE(ran("bii->bi", {{3, 9, 9}}).empty());
  EXPECT_FALSE(ran("ij->i", {{17, 33}}).empty());
  EXPECT_FALSE(ran("ij,kl->i", {{5, 6}, {7, 8}}).empty());
  EXPECT_FALSE(ran("ij,jk,kl->il", {{5, 6}, {6, 7}, {7, 8}}).empty());
  EXPECT_FALSE(ran("ij,jk->ik", {{5, 6}, {6, 7}}, DType::f64).empty());
}

/// Their equations, and the shapes of their operands: three and more, sums that one operand alone has, diagonals, outer products,
/// loops of one element, results without axes, rows longer than a chunk.
TEST(EinsumTactics, go_step_by_step_through_many_operands) {
  const std::pair<std::string, std::vector<Shape>> cases[] = {
      {"a,b,c->abc", {{7}, {7}, {129}}},
      {"bnc,bnd,bne->bcde", {{2, 49, 8}, {2, 49, 5}, {2, 49, 6}}},
      {"bik,bjk,bk->bij", {{2, 9, 17}, {2, 5, 17}, {2, 17}}},
      {"abc,cd,be->ade", {{9, 4, 9}, {9, 6}, {4, 5}}},
      {"ijk,kl->il", {{5, 4, 9}, {9, 300}}},
      {"i,ij,j->", {{17}, {17, 33}, {33}}},
      {"iij->j", {{7, 7, 65}}},
      {"ijkl->", {{3, 5, 7, 11}}},
      {"ij->j", {{19, 600}}},
      {"ij,j,j,i->ji", {{5, 9}, {9}, {9}, {5}}},
      {"abc,b,acd->bd", {{3, 1, 4}, {1}, {3, 4, 5}}},
      {"bnc,c,d->bnd", {{1, 6, 8}, {8}, {3}}},
      {"i,j->", {{40}, {50}}},
      {"a,b,c,d,e->edcba", {{2}, {3}, {4}, {5}, {6}}},
  };
  for (const auto& [equation, shapes] : cases)
    for (const DType type : {DType::f32, DType::f64, DType::f16}) EXPECT_FALSE(ran(equation, shapes, type).empty()) << equation;
}

}  // namespace
}  // namespace smelt::ops
