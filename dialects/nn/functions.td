// SPDX-License-Identifier: Apache-2.0
//
// Functions of one or two numbers that a library computes. Their classes are in functions.h, apart from nn.h: few files name them, and a
// new one does not recompile the users of nn.h.

#ifndef ASHLAR_DIALECTS_NN_FUNCTIONS_TD
#define ASHLAR_DIALECTS_NN_FUNCTIONS_TD

include "dialects/nn/nn_base.td"

def Nn_TanOp : Nn_UnaryOp<"tan", "tangent of an angle in radians", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_AsinOp : Nn_UnaryOp<"asin", "arcsine", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_AcosOp : Nn_UnaryOp<"acos", "arccosine", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_AtanOp : Nn_UnaryOp<"atan", "arctangent", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_SinhOp : Nn_UnaryOp<"sinh", "hyperbolic sine", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_CoshOp : Nn_UnaryOp<"cosh", "hyperbolic cosine", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_AsinhOp : Nn_UnaryOp<"asinh", "inverse of sinh", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_AcoshOp : Nn_UnaryOp<"acosh", "inverse of cosh", Nn_Computes<"LongFunction", "Follow", "none">>;
def Nn_AtanhOp : Nn_UnaryOp<"atanh", "inverse of tanh", Nn_Computes<"LongFunction", "Follow", "none">>;

def Nn_RemOp : Nn_BinaryOp<"rem", "the rest of lhs / rhs truncated toward zero: exact, with the sign of lhs",
                           Nn_Computes<"LongFunction", "Wide", "none">, Nn_FloatTensor>;

#endif // ASHLAR_DIALECTS_NN_FUNCTIONS_TD
