"""A matrix packed for the CPU library, and its product with rows. The layout is described in csrc/formats.h."""

import ctypes
from array import array
from collections.abc import Mapping, Sequence

import torch

from spectra.target.native.codes import Codes
from spectra.target.native.library import Library

OUTPUTS, INPUTS = 16, 32  # what outputs and inputs are filled up to a multiple of
FLOAT, BF16, BITS4, BITS8 = range(4)


class MatrixView(ctypes.Structure):
    """`Matrix` of csrc/formats.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("panel_bytes", ctypes.c_int64),
        ("outputs", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
        ("panels", ctypes.c_int32),
        ("format", ctypes.c_int32),
        ("group", ctypes.c_int32),
        ("scale_bytes", ctypes.c_int32),
        ("has_minimum", ctypes.c_int32),
        ("lifted", ctypes.c_int32),
    )


class Matrix:
    """weight [outputs, inputs] and bias [outputs]. data: the packed bytes. view: what the library reads."""

    def __init__(
        self,
        library: Library,
        shape: torch.Size,
        data: torch.Tensor,
        bias: torch.Tensor | None,
        about: Mapping[str, int],
    ) -> None:
        self.library, self.data = library, library.pages.take(data)
        self.outputs, self.inputs = shape
        self.bias = None if bias is None else fill(bias.detach().float(), OUTPUTS)
        self.view: MatrixView = MatrixView(
            data=self.data.data_ptr(),
            bias=None if self.bias is None else self.bias.data_ptr(),
            panel_bytes=data.nbytes // data.shape[0],
            outputs=self.outputs,
            inputs=-(-self.inputs // INPUTS) * INPUTS,
            panels=-(-self.outputs // OUTPUTS),
            **about,
        )

    @classmethod
    def of(cls, library: Library, weight: torch.Tensor | Codes, bias: torch.Tensor | None = None) -> "Matrix":
        """Pack once. weight: [outputs, inputs] bf16 or fp32, or codes; bias: [outputs].

        A product with codes has the bits of the product with `codes.dense()`, but for the sign of a zero.
        """
        if isinstance(weight, Codes):
            packed = pack_codes(weight)
            if packed is not None:
                return cls(library, weight.shape, packed[0], bias, packed[1])
            weight = weight.dense()
        weight = weight.detach()
        if weight.dtype not in (torch.bfloat16, torch.float32):
            raise ValueError(f"a matrix of {weight.dtype} is not read; give bf16 or fp32")
        return cls(
            library,
            weight.shape,
            pack(weight),
            bias,
            {"format": BF16 if weight.dtype == torch.bfloat16 else FLOAT},
        )

    @property
    def nbytes(self) -> int:
        """Bytes that a product reads once."""
        return self.data.nbytes

    @property
    def quantised(self) -> bool:
        return self.view.format in (BITS4, BITS8)

    def product(self, rows: torch.Tensor) -> torch.Tensor:
        """rows [q, inputs] bf16 or fp32 -> fp32 [q, outputs]. Each output is one sum over the inputs in one order."""
        x = rows.detach().float().contiguous()
        out = torch.empty(len(x), self.outputs, dtype=torch.float32, device="cpu")
        if len(x):
            self.library.calls.spectra_product(
                ctypes.byref(self.view),
                ctypes.c_void_p(x.data_ptr()),
                ctypes.c_int64(len(x)),
                ctypes.c_int64(self.inputs),
                ctypes.c_void_p(out.data_ptr()),
                self.library.threads,
            )
        return out

    def rows(self, which: Sequence[int]) -> torch.Tensor:
        """Rows of the weight, as an embedding has them: fp32 [len(which), inputs]."""
        out = torch.empty(len(which), self.view.inputs, dtype=torch.float32, device="cpu")
        numbers = array("q", which)
        self.library.calls.spectra_rows(
            ctypes.byref(self.view),
            ctypes.c_void_p(numbers.buffer_info()[0]),
            ctypes.c_int64(len(numbers)),
            ctypes.c_void_p(out.data_ptr()),
        )
        return out if self.inputs == self.view.inputs else out[:, : self.inputs].contiguous()


def fill(tensor: torch.Tensor, *multiples: int) -> torch.Tensor:
    """A contiguous tensor whose last dimensions are filled up with zeros to these multiples."""
    for dim, multiple in zip(range(-len(multiples), 0), multiples, strict=True):
        short = -tensor.shape[dim] % multiple
        if short:
            shape = list(tensor.shape)
            shape[dim] = short
            tensor = torch.cat([tensor, tensor.new_zeros(shape)], dim)
    return tensor.contiguous()


def pack(weight: torch.Tensor) -> torch.Tensor:
    """bf16: [panels, inputs / 2, 16] pairs as int32; fp32: [panels, inputs, 16]."""
    whole = fill(weight, OUTPUTS, INPUTS)
    if whole.dtype == torch.bfloat16:
        whole = whole.view(torch.int32)
    return whole.view(-1, OUTPUTS, whole.shape[1]).transpose(1, 2).contiguous()


def pack_codes(weight: Codes) -> tuple[torch.Tensor, dict[str, int]] | None:
    """uint8 [panels, groups, bytes] and what `MatrixView` says of them; None where bits could differ from `dense()`."""
    codes, scales, minimums = weight.codes, weight.scales, weight.minimums
    whole_row = scales.shape[1] == 1
    group = codes.shape[1] // scales.shape[1]
    if group % 8 or (group % INPUTS and not whole_row and group != 16):
        return None
    if not weight.exact:
        return None
    codes = fill(codes, OUTPUTS, INPUTS)
    group = codes.shape[1] if whole_row else group
    panels, groups = len(codes) // OUTPUTS, codes.shape[1] // group
    # [panel, half, output, inputs of a word, pair, of pair] -> a word for (output, of pair), its codes by (pair, half)
    if weight.bits == 4:
        split = codes.view(panels, 2, 8, -1, 4, 2).permute(0, 3, 2, 5, 4, 1).reshape(-1, 4, 2)
        body = split[..., 0] | split[..., 1].roll(1, dims=1) << 4
    else:
        split = (codes.view(torch.uint8) ^ 128).view(panels, 2, 8, -1, 2, 2).permute(0, 3, 2, 5, 4, 1)
        words = split.flip(-1).reshape(-1, 4).view(torch.int32)
        body = words << 7 | words >> 25 & 0x7F
    numbers = [scales] if minimums is None else [scales, minimums]
    half = all(torch.equal(one.half().float(), one) for one in numbers)
    parts = []
    for one in numbers:
        one = fill(one.half() if half else one.float(), OUTPUTS, 1)
        one = torch.nn.functional.pad(one, (0, groups - one.shape[1])).view(panels, OUTPUTS, groups)
        parts.append(one.transpose(1, 2).contiguous().view(torch.uint8))
    data = torch.cat([*parts, body.view(torch.uint8).reshape(panels, groups, -1)], 2).contiguous()
    return data, {
        "format": BITS4 if weight.bits == 4 else BITS8,
        "group": group,
        "scale_bytes": 2 if half else 4,
        "has_minimum": int(minimums is not None),
        "lifted": int(lifts(weight)),
    }


def lifts(weight: Codes) -> bool:
    """Whether minimum - n * scale is a float for the n with which the library takes codes where they stand."""
    steps = (2048,) if weight.bits == 4 else (256 + 128, 65536 + 128)
    scales = weight.scales.double()
    minimums = torch.zeros_like(scales) if weight.minimums is None else weight.minimums.double()
    for n in steps:
        lifted = (minimums - scales * n).float().double()
        # a difference that was rounded fails to give back the smaller of the two
        if not (torch.equal(minimums - lifted, scales * n) and torch.equal(lifted + scales * n, minimums)):
            return False
    return True
