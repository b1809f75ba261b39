(* Generated from theorems.json by `make update`. *)
From AttnPrune Require algebra.AbsInequality.
From AttnPrune Require algebra.AttentionBounds.
From AttnPrune Require algebra.BPlusM.
From AttnPrune Require algebra.BasicAlgebra.
From AttnPrune Require algebra.ChoiceBounds.
From AttnPrune Require algebra.Frobenius.
From AttnPrune Require algebra.HadamardBounds.
From AttnPrune Require algebra.LipschitzProduct.
From AttnPrune Require algebra.PLCorrected.
From AttnPrune Require algebra.PLSharp.
From AttnPrune Require algebra.RankCondition.
From AttnPrune Require algebra.RankNorm.
From AttnPrune Require algebra.RowBounds.
From AttnPrune Require algebra.Sandwich.
From AttnPrune Require analysis.Calculus.
From AttnPrune Require analysis.Confinement.
From AttnPrune Require analysis.ConvergenceRefuted.
From AttnPrune Require analysis.Descent.
From AttnPrune Require analysis.EntrywiseBounds.
From AttnPrune Require analysis.Gradient.
From AttnPrune Require analysis.LipschitzGradient.
From AttnPrune Require analysis.LipschitzProducts.
From AttnPrune Require analysis.LipschitzSharp.
From AttnPrune Require analysis.MainTheorem.
From AttnPrune Require analysis.MaskReadings.
From AttnPrune Require analysis.MatrixView.
From AttnPrune Require analysis.MeanValue.
From AttnPrune Require analysis.OnesWitness.
From AttnPrune Require analysis.PLRefuted.
From AttnPrune Require analysis.PLTrueGradient.
From AttnPrune Require analysis.RowHessian.
From AttnPrune Require analysis.RowHessianSharp.
From AttnPrune Require analysis.SoftmaxRow.
Goal True. idtac "== algebra/Frobenius.v F_norm_A_plus_B". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.F_norm_A_plus_B.
Goal True. idtac "== algebra/Frobenius.v norm_bound_homogeneous". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.norm_bound_homogeneous.
Goal True. idtac "== algebra/Frobenius.v norm_bound_cauchy_schwarz". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.norm_bound_cauchy_schwarz.
Goal True. idtac "== algebra/Frobenius.v norm_bound_triangle". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.norm_bound_triangle.
Goal True. idtac "== algebra/Frobenius.v norm_bound_transpose". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.norm_bound_transpose.
Goal True. idtac "== algebra/Frobenius.v norm_bound_entry". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.norm_bound_entry.
Goal True. idtac "== algebra/Frobenius.v norm_bound_hadamard". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.norm_bound_hadamard.
Goal True. idtac "== algebra/Frobenius.v norm_bound_product". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.norm_bound_product.
Goal True. idtac "== algebra/Frobenius.v norm_bound_spectral_le_frobenius". Abort.
Print Assumptions AttnPrune.algebra.Frobenius.norm_bound_spectral_le_frobenius.
Goal True. idtac "== algebra/BasicAlgebra.v indexing_row". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.indexing_row.
Goal True. idtac "== algebra/BasicAlgebra.v indexing_column". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.indexing_column.
Goal True. idtac "== algebra/BasicAlgebra.v combine_part1". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.combine_part1.
Goal True. idtac "== algebra/BasicAlgebra.v combine_part2". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.combine_part2.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_inner_symmetric". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_inner_symmetric.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_hadamard_diag". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_hadamard_diag.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_inner_ones". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_inner_ones.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_inner_hadamard". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_inner_hadamard.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_row_hadamard". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_row_hadamard.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_hadamard_transpose". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_hadamard_transpose.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_hadamard_unit". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_hadamard_unit.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_diag_sandwich". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_diag_sandwich.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_outer_products". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_outer_products.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_hadamard_entry". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_hadamard_entry.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_hadamard_sum". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_hadamard_sum.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_norm_trace". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_norm_trace.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_trace_commutes". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_trace_commutes.
Goal True. idtac "== algebra/BasicAlgebra.v algebra_norm_diag". Abort.
Print Assumptions AttnPrune.algebra.BasicAlgebra.algebra_norm_diag.
Goal True. idtac "== algebra/AbsInequality.v abs_inequality_part1". Abort.
Print Assumptions AttnPrune.algebra.AbsInequality.abs_inequality_part1.
Goal True. idtac "== algebra/AbsInequality.v abs_inequality_part2". Abort.
Print Assumptions AttnPrune.algebra.AbsInequality.abs_inequality_part2.
Goal True. idtac "== algebra/LipschitzProduct.v lip_product_linear". Abort.
Print Assumptions AttnPrune.algebra.LipschitzProduct.lip_product_linear.
Goal True. idtac "== algebra/LipschitzProduct.v lip_product". Abort.
Print Assumptions AttnPrune.algebra.LipschitzProduct.lip_product.
Goal True. idtac "== algebra/Sandwich.v trace_BAB". Abort.
Print Assumptions AttnPrune.algebra.Sandwich.trace_BAB.
Goal True. idtac "== algebra/Sandwich.v lower_bound_XBX". Abort.
Print Assumptions AttnPrune.algebra.Sandwich.lower_bound_XBX.
Goal True. idtac "== algebra/RankCondition.v beta_needs_n_le_d". Abort.
Print Assumptions AttnPrune.algebra.RankCondition.beta_needs_n_le_d.
Goal True. idtac "== algebra/RankNorm.v norm_bound_frobenius_le_rank". Abort.
Print Assumptions AttnPrune.algebra.RankNorm.norm_bound_frobenius_le_rank.
Goal True. idtac "== algebra/HadamardBounds.v lower_bound_hadamard". Abort.
Print Assumptions AttnPrune.algebra.HadamardBounds.lower_bound_hadamard.
Goal True. idtac "== algebra/HadamardBounds.v upper_bound_hadamard". Abort.
Print Assumptions AttnPrune.algebra.HadamardBounds.upper_bound_hadamard.
Goal True. idtac "== algebra/BPlusM.v M_bounds". Abort.
Print Assumptions AttnPrune.algebra.BPlusM.M_bounds.
Goal True. idtac "== algebra/BPlusM.v lower_bound_B_plus_M_ball". Abort.
Print Assumptions AttnPrune.algebra.BPlusM.lower_bound_B_plus_M_ball.
Goal True. idtac "== algebra/BPlusM.v lower_bound_B_plus_M_part1". Abort.
Print Assumptions AttnPrune.algebra.BPlusM.lower_bound_B_plus_M_part1.
Goal True. idtac "== algebra/BPlusM.v lower_bound_B_plus_M_part2". Abort.
Print Assumptions AttnPrune.algebra.BPlusM.lower_bound_B_plus_M_part2.
Goal True. idtac "== algebra/RowBounds.v lower_bound_p_row_masked". Abort.
Print Assumptions AttnPrune.algebra.RowBounds.lower_bound_p_row_masked.
Goal True. idtac "== algebra/RowBounds.v lower_bound_p_row". Abort.
Print Assumptions AttnPrune.algebra.RowBounds.lower_bound_p_row.
Goal True. idtac "== algebra/RowBounds.v lower_bound_p_masked". Abort.
Print Assumptions AttnPrune.algebra.RowBounds.lower_bound_p_masked.
Goal True. idtac "== algebra/RowBounds.v lower_bound_p". Abort.
Print Assumptions AttnPrune.algebra.RowBounds.lower_bound_p.
Goal True. idtac "== algebra/AttentionBounds.v bound_basic_func_part4". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_basic_func_part4.
Goal True. idtac "== algebra/AttentionBounds.v bound_basic_func_part7". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_basic_func_part7.
Goal True. idtac "== algebra/AttentionBounds.v bound_basic_func_part1". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_basic_func_part1.
Goal True. idtac "== algebra/AttentionBounds.v bound_c". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_c.
Goal True. idtac "== algebra/AttentionBounds.v bound_c_sharp". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_c_sharp.
Goal True. idtac "== algebra/AttentionBounds.v bound_basic_func_part3". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_basic_func_part3.
Goal True. idtac "== algebra/AttentionBounds.v bound_basic_func_part10_sharp". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_basic_func_part10_sharp.
Goal True. idtac "== algebra/AttentionBounds.v bound_basic_func_part10". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_basic_func_part10.
Goal True. idtac "== algebra/AttentionBounds.v bound_diag_f". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_diag_f.
Goal True. idtac "== algebra/AttentionBounds.v bound_p". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.bound_p.
Goal True. idtac "== algebra/AttentionBounds.v delta_le_inverse_allowed". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.delta_le_inverse_allowed.
Goal True. idtac "== algebra/AttentionBounds.v delta_le_inverse_n". Abort.
Print Assumptions AttnPrune.algebra.AttentionBounds.delta_le_inverse_n.
Goal True. idtac "== algebra/ChoiceBounds.v bound_c_choices". Abort.
Print Assumptions AttnPrune.algebra.ChoiceBounds.bound_c_choices.
Goal True. idtac "== algebra/ChoiceBounds.v bound_hadamard_choices". Abort.
Print Assumptions AttnPrune.algebra.ChoiceBounds.bound_hadamard_choices.
Goal True. idtac "== algebra/ChoiceBounds.v bound_diag_choices". Abort.
Print Assumptions AttnPrune.algebra.ChoiceBounds.bound_diag_choices.
Goal True. idtac "== algebra/PLCorrected.v attention_gradient_upper". Abort.
Print Assumptions AttnPrune.algebra.PLCorrected.attention_gradient_upper.
Goal True. idtac "== algebra/PLCorrected.v attention_gradient_lower_masked". Abort.
Print Assumptions AttnPrune.algebra.PLCorrected.attention_gradient_lower_masked.
Goal True. idtac "== algebra/PLCorrected.v PL_corrected_masked". Abort.
Print Assumptions AttnPrune.algebra.PLCorrected.PL_corrected_masked.
Goal True. idtac "== algebra/PLCorrected.v PL_corrected". Abort.
Print Assumptions AttnPrune.algebra.PLCorrected.PL_corrected.
Goal True. idtac "== algebra/PLCorrected.v PL_corrected_masked_mu". Abort.
Print Assumptions AttnPrune.algebra.PLCorrected.PL_corrected_masked_mu.
Goal True. idtac "== algebra/PLSharp.v PL_corrected_attained". Abort.
Print Assumptions AttnPrune.algebra.PLSharp.PL_corrected_attained.
Goal True. idtac "== analysis/Calculus.v calculus_power". Abort.
Print Assumptions AttnPrune.analysis.Calculus.calculus_power.
Goal True. idtac "== analysis/Calculus.v calculus_hadamard". Abort.
Print Assumptions AttnPrune.analysis.Calculus.calculus_hadamard.
Goal True. idtac "== analysis/Calculus.v calculus_inner". Abort.
Print Assumptions AttnPrune.analysis.Calculus.calculus_inner.
Goal True. idtac "== analysis/Calculus.v calculus_exp". Abort.
Print Assumptions AttnPrune.analysis.Calculus.calculus_exp.
Goal True. idtac "== analysis/Calculus.v calculus_right_factor". Abort.
Print Assumptions AttnPrune.analysis.Calculus.calculus_right_factor.
Goal True. idtac "== analysis/Calculus.v calculus_left_factor". Abort.
Print Assumptions AttnPrune.analysis.Calculus.calculus_left_factor.
Goal True. idtac "== analysis/Calculus.v calculus_sum". Abort.
Print Assumptions AttnPrune.analysis.Calculus.calculus_sum.
Goal True. idtac "== analysis/Calculus.v calculus_entry". Abort.
Print Assumptions AttnPrune.analysis.Calculus.calculus_entry.
Goal True. idtac "== analysis/MeanValue.v mean_value_matrix". Abort.
Print Assumptions AttnPrune.analysis.MeanValue.mean_value_matrix.
Goal True. idtac "== analysis/SoftmaxRow.v variance_le_half". Abort.
Print Assumptions AttnPrune.analysis.SoftmaxRow.variance_le_half.
Goal True. idtac "== analysis/SoftmaxRow.v softmax_jacobian_norm". Abort.
Print Assumptions AttnPrune.analysis.SoftmaxRow.softmax_jacobian_norm.
Goal True. idtac "== analysis/SoftmaxRow.v softmax_lipschitz". Abort.
Print Assumptions AttnPrune.analysis.SoftmaxRow.softmax_lipschitz.
Goal True. idtac "== analysis/Gradient.v mat_view_l_directional". Abort.
Print Assumptions AttnPrune.analysis.Gradient.mat_view_l_directional.
Goal True. idtac "== analysis/Gradient.v mask_hadamard". Abort.
Print Assumptions AttnPrune.analysis.Gradient.mask_hadamard.
Goal True. idtac "== analysis/Gradient.v grad_one_row_mat". Abort.
Print Assumptions AttnPrune.analysis.Gradient.grad_one_row_mat.
Goal True. idtac "== analysis/Gradient.v grad_exp_func". Abort.
Print Assumptions AttnPrune.analysis.Gradient.grad_exp_func.
Goal True. idtac "== analysis/Gradient.v grad_sum". Abort.
Print Assumptions AttnPrune.analysis.Gradient.grad_sum.
Goal True. idtac "== analysis/Gradient.v grad_soft_prob". Abort.
Print Assumptions AttnPrune.analysis.Gradient.grad_soft_prob.
Goal True. idtac "== analysis/Gradient.v grad_one_unit". Abort.
Print Assumptions AttnPrune.analysis.Gradient.grad_one_unit.
Goal True. idtac "== analysis/Gradient.v grad_rec". Abort.
Print Assumptions AttnPrune.analysis.Gradient.grad_rec.
Goal True. idtac "== analysis/Gradient.v grad_reg". Abort.
Print Assumptions AttnPrune.analysis.Gradient.grad_reg.
Goal True. idtac "== analysis/Gradient.v grad_loss_func". Abort.
Print Assumptions AttnPrune.analysis.Gradient.grad_loss_func.
Goal True. idtac "== analysis/Gradient.v mat_view_l". Abort.
Print Assumptions AttnPrune.analysis.Gradient.mat_view_l.
Goal True. idtac "== analysis/MatrixView.v mat_view_b1_part1". Abort.
Print Assumptions AttnPrune.analysis.MatrixView.mat_view_b1_part1.
Goal True. idtac "== analysis/MatrixView.v mat_view_b1_part2". Abort.
Print Assumptions AttnPrune.analysis.MatrixView.mat_view_b1_part2.
Goal True. idtac "== analysis/MatrixView.v mat_view_b2_part1". Abort.
Print Assumptions AttnPrune.analysis.MatrixView.mat_view_b2_part1.
Goal True. idtac "== analysis/MatrixView.v mat_view_b2_part2". Abort.
Print Assumptions AttnPrune.analysis.MatrixView.mat_view_b2_part2.
Goal True. idtac "== analysis/MatrixView.v mat_view_b3". Abort.
Print Assumptions AttnPrune.analysis.MatrixView.mat_view_b3.
Goal True. idtac "== analysis/MaskReadings.v causal_no_delta". Abort.
Print Assumptions AttnPrune.analysis.MaskReadings.causal_no_delta.
Goal True. idtac "== analysis/MaskReadings.v causal_floor". Abort.
Print Assumptions AttnPrune.analysis.MaskReadings.causal_floor.
Goal True. idtac "== analysis/MaskReadings.v masked_no_delta". Abort.
Print Assumptions AttnPrune.analysis.MaskReadings.masked_no_delta.
Goal True. idtac "== analysis/MaskReadings.v delta_le_inverse_n_softmax". Abort.
Print Assumptions AttnPrune.analysis.MaskReadings.delta_le_inverse_n_softmax.
Goal True. idtac "== analysis/MaskReadings.v delta_allowed_le_inverse". Abort.
Print Assumptions AttnPrune.analysis.MaskReadings.delta_allowed_le_inverse.
Goal True. idtac "== analysis/PLRefuted.v PL_ineq_full_refuted". Abort.
Print Assumptions AttnPrune.analysis.PLRefuted.PL_ineq_full_refuted.
Goal True. idtac "== analysis/PLRefuted.v PL_ineq_full_refuted_lam0". Abort.
Print Assumptions AttnPrune.analysis.PLRefuted.PL_ineq_full_refuted_lam0.
Goal True. idtac "== analysis/PLRefuted.v PL_ineq_causal_allowed_refuted". Abort.
Print Assumptions AttnPrune.analysis.PLRefuted.PL_ineq_causal_allowed_refuted.
Goal True. idtac "== analysis/PLRefuted.v PL_ineq_causal_allowed_refuted_lam0". Abort.
Print Assumptions AttnPrune.analysis.PLRefuted.PL_ineq_causal_allowed_refuted_lam0.
Goal True. idtac "== analysis/PLRefuted.v PL_ineq_causal_vacuous". Abort.
Print Assumptions AttnPrune.analysis.PLRefuted.PL_ineq_causal_vacuous.
Goal True. idtac "== analysis/OnesWitness.v ones_attention_loss_zero". Abort.
Print Assumptions AttnPrune.analysis.OnesWitness.ones_attention_loss_zero.
Goal True. idtac "== analysis/OnesWitness.v ones_loss". Abort.
Print Assumptions AttnPrune.analysis.OnesWitness.ones_loss.
Goal True. idtac "== analysis/OnesWitness.v ones_gradient". Abort.
Print Assumptions AttnPrune.analysis.OnesWitness.ones_gradient.
Goal True. idtac "== analysis/OnesWitness.v ones_satisfies_guarantee". Abort.
Print Assumptions AttnPrune.analysis.OnesWitness.ones_satisfies_guarantee.
Goal True. idtac "== analysis/RowHessian.v p_row_velocity_norm". Abort.
Print Assumptions AttnPrune.analysis.RowHessian.p_row_velocity_norm.
Goal True. idtac "== analysis/RowHessian.v p_row_lipschitz". Abort.
Print Assumptions AttnPrune.analysis.RowHessian.p_row_lipschitz.
Goal True. idtac "== analysis/LipschitzGradient.v row_constant_five_quarters". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.row_constant_five_quarters.
Goal True. idtac "== analysis/LipschitzGradient.v lip_f_half_K". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.lip_f_half_K.
Goal True. idtac "== analysis/LipschitzGradient.v lip_c_half_K". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.lip_c_half_K.
Goal True. idtac "== analysis/LipschitzGradient.v lip_p". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.lip_p.
Goal True. idtac "== analysis/LipschitzGradient.v lip_grad". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.lip_grad.
Goal True. idtac "== analysis/LipschitzGradient.v logit_bound_frobenius". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.logit_bound_frobenius.
Goal True. idtac "== analysis/LipschitzGradient.v lip_f". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.lip_f.
Goal True. idtac "== analysis/LipschitzGradient.v lip_c". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.lip_c.
Goal True. idtac "== analysis/LipschitzGradient.v lip_grad_l". Abort.
Print Assumptions AttnPrune.analysis.LipschitzGradient.lip_grad_l.
Goal True. idtac "== analysis/EntrywiseBounds.v bound_basic_func_part5". Abort.
Print Assumptions AttnPrune.analysis.EntrywiseBounds.bound_basic_func_part5.
Goal True. idtac "== analysis/EntrywiseBounds.v bound_basic_func_part6". Abort.
Print Assumptions AttnPrune.analysis.EntrywiseBounds.bound_basic_func_part6.
Goal True. idtac "== analysis/EntrywiseBounds.v bound_basic_func_part8". Abort.
Print Assumptions AttnPrune.analysis.EntrywiseBounds.bound_basic_func_part8.
Goal True. idtac "== analysis/EntrywiseBounds.v bound_basic_func_part9". Abort.
Print Assumptions AttnPrune.analysis.EntrywiseBounds.bound_basic_func_part9.
Goal True. idtac "== analysis/EntrywiseBounds.v bound_grad_f". Abort.
Print Assumptions AttnPrune.analysis.EntrywiseBounds.bound_grad_f.
Goal True. idtac "== analysis/LipschitzProducts.v lip_f_circ_c". Abort.
Print Assumptions AttnPrune.analysis.LipschitzProducts.lip_f_circ_c.
Goal True. idtac "== analysis/LipschitzProducts.v lip_diag". Abort.
Print Assumptions AttnPrune.analysis.LipschitzProducts.lip_diag.
Goal True. idtac "== analysis/LipschitzProducts.v lip_diag_f". Abort.
Print Assumptions AttnPrune.analysis.LipschitzProducts.lip_diag_f.
Goal True. idtac "== analysis/RowHessianSharp.v row_hessian_bound". Abort.
Print Assumptions AttnPrune.analysis.RowHessianSharp.row_hessian_bound.
Goal True. idtac "== analysis/RowHessianSharp.v p_row_velocity_norm_sharp". Abort.
Print Assumptions AttnPrune.analysis.RowHessianSharp.p_row_velocity_norm_sharp.
Goal True. idtac "== analysis/RowHessianSharp.v row_constant_C_plus". Abort.
Print Assumptions AttnPrune.analysis.RowHessianSharp.row_constant_C_plus.
Goal True. idtac "== analysis/LipschitzSharp.v C_plus_value". Abort.
Print Assumptions AttnPrune.analysis.LipschitzSharp.C_plus_value.
Goal True. idtac "== analysis/LipschitzSharp.v lip_grad_sharp". Abort.
Print Assumptions AttnPrune.analysis.LipschitzSharp.lip_grad_sharp.
Goal True. idtac "== analysis/LipschitzSharp.v lip_p_sharp". Abort.
Print Assumptions AttnPrune.analysis.LipschitzSharp.lip_p_sharp.
Goal True. idtac "== analysis/LipschitzSharp.v bound_grad_f_centred". Abort.
Print Assumptions AttnPrune.analysis.LipschitzSharp.bound_grad_f_centred.
Goal True. idtac "== analysis/LipschitzSharp.v bound_grad_f_columns". Abort.
Print Assumptions AttnPrune.analysis.LipschitzSharp.bound_grad_f_columns.
Goal True. idtac "== analysis/LipschitzSharp.v logit_bound_centred". Abort.
Print Assumptions AttnPrune.analysis.LipschitzSharp.logit_bound_centred.
Goal True. idtac "== analysis/Descent.v descent_lemma". Abort.
Print Assumptions AttnPrune.analysis.Descent.descent_lemma.
Goal True. idtac "== analysis/Descent.v sufficient_decrease". Abort.
Print Assumptions AttnPrune.analysis.Descent.sufficient_decrease.
Goal True. idtac "== analysis/Descent.v gd_monotone". Abort.
Print Assumptions AttnPrune.analysis.Descent.gd_monotone.
Goal True. idtac "== analysis/Descent.v small_gradient_exists". Abort.
Print Assumptions AttnPrune.analysis.Descent.small_gradient_exists.
Goal True. idtac "== analysis/Descent.v convergence". Abort.
Print Assumptions AttnPrune.analysis.Descent.convergence.
Goal True. idtac "== analysis/Confinement.v confinement_sublevel". Abort.
Print Assumptions AttnPrune.analysis.Confinement.confinement_sublevel.
Goal True. idtac "== analysis/Confinement.v confinement_norm". Abort.
Print Assumptions AttnPrune.analysis.Confinement.confinement_norm.
Goal True. idtac "== analysis/Confinement.v gd_descends". Abort.
Print Assumptions AttnPrune.analysis.Confinement.gd_descends.
Goal True. idtac "== analysis/Confinement.v confinement". Abort.
Print Assumptions AttnPrune.analysis.Confinement.confinement.
Goal True. idtac "== analysis/Confinement.v confinement_ball". Abort.
Print Assumptions AttnPrune.analysis.Confinement.confinement_ball.
Goal True. idtac "== analysis/Confinement.v attention_loss_along_gd". Abort.
Print Assumptions AttnPrune.analysis.Confinement.attention_loss_along_gd.
Goal True. idtac "== analysis/PLTrueGradient.v attention_gradient_lower". Abort.
Print Assumptions AttnPrune.analysis.PLTrueGradient.attention_gradient_lower.
Goal True. idtac "== analysis/PLTrueGradient.v p_norm_half_c". Abort.
Print Assumptions AttnPrune.analysis.PLTrueGradient.p_norm_half_c.
Goal True. idtac "== analysis/PLTrueGradient.v attention_gradient_upper_true". Abort.
Print Assumptions AttnPrune.analysis.PLTrueGradient.attention_gradient_upper_true.
Goal True. idtac "== analysis/PLTrueGradient.v PL_corrected_true_gradient". Abort.
Print Assumptions AttnPrune.analysis.PLTrueGradient.PL_corrected_true_gradient.
Goal True. idtac "== analysis/PLTrueGradient.v PL_additive_free". Abort.
Print Assumptions AttnPrune.analysis.PLTrueGradient.PL_additive_free.
Goal True. idtac "== analysis/PLTrueGradient.v PL_ineq_corrected_masked". Abort.
Print Assumptions AttnPrune.analysis.PLTrueGradient.PL_ineq_corrected_masked.
Goal True. idtac "== analysis/PLTrueGradient.v PL_ineq_corrected_full". Abort.
Print Assumptions AttnPrune.analysis.PLTrueGradient.PL_ineq_corrected_full.
Goal True. idtac "== analysis/PLTrueGradient.v PL_ineq_corrected_causal". Abort.
Print Assumptions AttnPrune.analysis.PLTrueGradient.PL_ineq_corrected_causal.
Goal True. idtac "== analysis/MainTheorem.v our_convergence_corrected". Abort.
Print Assumptions AttnPrune.analysis.MainTheorem.our_convergence_corrected.
Goal True. idtac "== analysis/MainTheorem.v gd_attention_loss". Abort.
Print Assumptions AttnPrune.analysis.MainTheorem.gd_attention_loss.
Goal True. idtac "== analysis/ConvergenceRefuted.v our_convergence_full_refuted". Abort.
Print Assumptions AttnPrune.analysis.ConvergenceRefuted.our_convergence_full_refuted.
Goal True. idtac "== analysis/ConvergenceRefuted.v our_convergence_causal_allowed_refuted". Abort.
Print Assumptions AttnPrune.analysis.ConvergenceRefuted.our_convergence_causal_allowed_refuted.
