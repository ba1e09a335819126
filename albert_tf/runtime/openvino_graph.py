"""A mark in a model's graph that makes OpenVINO fast in bfloat16."""

from typing import Any


def round_before_products(model: Any) -> None:
    """Allows bfloat16 for everything that products read, as for the products.

    OpenVINO keeps float32 between an output and the last products before it. Where an output is a sum with
    residual connections, as `sequence_output` is, these lead back to the first layer, and everything between the
    products would be float32. Values that no product reads, such as probabilities, stay float32. OpenVINO's cache
    of compiled models does not store the mark.

    Args:
      model: an `openvino.Model`, which is changed.
    """
    read_by_product: set[str] = set()
    for operation in reversed(model.get_ordered_ops()):
        readers = [reader.get_node() for port in operation.outputs() for reader in port.get_target_inputs()]
        if any(
            reader.get_type_name() == "MatMul" or reader.get_friendly_name() in read_by_product
            for reader in readers
        ):
            read_by_product.add(operation.get_friendly_name())
            operation.set_rt_info(True, "enforceBF16evenForGraphTail")
