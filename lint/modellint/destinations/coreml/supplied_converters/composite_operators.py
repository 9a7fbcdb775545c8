"""Composite operators: those that PyTorch itself computes with others that have a converter."""

from __future__ import annotations

from modellint.destinations.coreml.supplied_converters.registration import takes_over
from modellint.destinations.decompositions.table import BIT_EQUAL, within

takes_over(
    BIT_EQUAL,
    """
    absolute arccos arcsin arctan arctanh block_diag broadcast_to cartesian_prod channel_shuffle column_stack
    concatenate deg2rad diag_embed diagflat divide dsplit dstack fft_fftshift fft_ifftshift flipud ger greater greater_equal
    hardshrink heaviside hsplit index_copy isin isneginf isposinf less less_equal linalg_diagonal movedim msort multiply
    negative not_equal positive rad2deg ravel rot90 row_stack softshrink subtract sum_to_size swapaxes t_copy take
    take_along_dim tensor_split unsafe_chunk unsafe_split unsafe_split_with_sizes view_as vsplit vstack
    _unsafe_index_put special_expit aminmax count_nonzero zero special_exp2 special_erf
    reflection_pad3d replication_pad3d max_unpool2d max_unpool3d unfold_copy swapdims moveaxis adjoint mH mT
    """,
)
takes_over(
    within(8),
    """
    addr arctan2 linalg_cross binary_cross_entropy celu cross_entropy_loss cumulative_trapezoid huber_loss kl_div kron l1_loss
    linalg_vander logaddexp logaddexp2 logit nansum pairwise_distance poisson_nll_loss quantile sinc soft_margin_loss
    smooth_l1_loss trapezoid trapz rnn_tanh_cell rnn_relu_cell gru_cell lstm_cell xlogy index_add
    special_entr special_expm1 special_log1p special_log_softmax special_logit special_logsumexp special_sinc
    special_softmax special_xlogy special_xlog1py special_ndtr
    """,
)
takes_over(within(16), "arccosh arcsinh float_power inner linalg_matmul linalg_multi_dot tensordot vdot")
takes_over(within(64), "linalg_matrix_power matrix_power")

takes_over(within(1), "true_divide", rescue=True)
takes_over(within(8), "einsum linalg_matrix_norm pixel_unshuffle", rescue=True)
takes_over(within(64), "linalg_norm", rescue=True)
