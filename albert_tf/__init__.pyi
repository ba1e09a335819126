"""The public names, for type checkers and editors; `__init__.py` imports each of them from here on first use."""

from albert_tf.config import AlbertConfig as AlbertConfig
from albert_tf.conversion.convert import convert as convert
from albert_tf.model.encoder import AlbertEncoder as AlbertEncoder
from albert_tf.model.heads import MaskedLMHead as MaskedLMHead
from albert_tf.model.heads import SentenceOrderHead as SentenceOrderHead
from albert_tf.model.pretrainer import AlbertPretrainer as AlbertPretrainer
from albert_tf.optimizers import AdamW as AdamW
from albert_tf.optimizers import Lamb as Lamb
from albert_tf.optimizers import WarmupPolynomialDecay as WarmupPolynomialDecay
from albert_tf.parameters import count_parameters as count_parameters
from albert_tf.runtime.portable_loading import load_portable as load_portable
from albert_tf.runtime.pretrained import Pretrained as Pretrained
from albert_tf.runtime.pretrained import load_pretrained as load_pretrained
from albert_tf.tasks.adapters import load_adapters as load_adapters
from albert_tf.tasks.adapters import save_adapters as save_adapters
from albert_tf.tasks.choice.model import MultipleChoice as MultipleChoice
from albert_tf.tasks.collapse_check import CollapseCheck as CollapseCheck
from albert_tf.tasks.sentences.model import SentenceEncoder as SentenceEncoder
from albert_tf.tasks.spans.model import QuestionAnswering as QuestionAnswering
from albert_tf.tasks.texts.model import MultiLabelClassifier as MultiLabelClassifier
from albert_tf.tasks.texts.model import OrdinalClassifier as OrdinalClassifier
from albert_tf.tasks.texts.model import TextClassifier as TextClassifier
from albert_tf.tasks.texts.model import TextRegressor as TextRegressor
from albert_tf.tasks.words.model import TokenClassifier as TokenClassifier
from data_prep.errors import InputError as InputError
from data_prep.in_graph import make_graph_tokenizer as make_graph_tokenizer
from data_prep.reading.dataset import pretraining_dataset as pretraining_dataset
from data_prep.reading.example_files import ExampleFiles as ExampleFiles
from data_prep.tokenizers.albert_tokenizer import AlbertTokenizer as AlbertTokenizer
from data_prep.tokenizers.vocabulary import Vocabulary as Vocabulary
from data_prep.tokenizers.wordpiece_tokenizer import WordPieceTokenizer as WordPieceTokenizer
from export.write import export_for_runtime as export_for_runtime
from export.write import export_model as export_model

__version__: str
__all__: list[str]
