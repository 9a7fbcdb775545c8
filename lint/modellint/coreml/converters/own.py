"""Operators that PyTorch itself computes with others that have a converter."""

from __future__ import annotations

from modellint.coreml.converters.registration import BIT_EQUAL, takes_over, within

takes_over(
    BIT_EQUAL,
    """
    absolute addr adjoint arccos arccosh arcsin arcsinh arctan arctan2 arctanh block_diag broadcast_to cartesian_prod
    channel_shuffle chunk column_stack combinations concatenate deg2rad diag_embed diagflat divide
    dsplit dstack fft_fftshift fft_ifftshift flipud float_power ger greater greater_equal hardshrink
    heaviside hsplit index_copy inner isin isneginf isposinf kl_div kron l1_loss less less_equal
    linalg_diagonal linalg_matmul linalg_multi_dot linalg_vander matrix_power
    linalg_matrix_power moveaxis movedim msort multiply native_channel_shuffle negative not_equal positive rad2deg ravel
    rot90 row_stack softshrink subtract sum_to_size swapaxes swapdims t_copy take
    take_along_dim tensor_split tensordot unsafe_chunk unsafe_split unsafe_split_with_sizes vander vdot view_as vsplit
    vstack _unsafe_index_put special_expit
    aminmax cumulative_trapezoid trapezoid trapz count_nonzero nansum soft_margin_loss
    huber_loss smooth_l1_loss margin_ranking_loss hinge_embedding_loss poisson_nll_loss zero
    special_exp2 special_round special_softmax special_log_softmax special_erf
    reflection_pad3d replication_pad3d max_unpool2d max_unpool3d unfold_copy
    """,
)
takes_over(
    within(8),
    """
    linalg_cross binary_cross_entropy binary_cross_entropy_with_logits celu cosine_embedding_loss cross_entropy_loss
    logaddexp logaddexp2 logit pairwise_distance quantile sinc
    special_entr special_expm1 special_log1p special_logit special_logsumexp special_sinc special_xlogy special_xlog1py
    rnn_tanh_cell rnn_relu_cell gru_cell lstm_cell triplet_margin_loss xlogy index_add nll_loss2d
    """,
)

takes_over(within(8), "einsum linalg_norm linalg_matrix_norm norm pixel_unshuffle", rescue=True)
