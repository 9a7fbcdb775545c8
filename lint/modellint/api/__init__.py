"""The Python API: checks, fixes, verification and export in the caller's process."""

from modellint.api import displays
from modellint.api.check_report import CheckFailed as CheckFailed
from modellint.api.check_report import Report as Report
from modellint.api.checks import check_model as check_model
from modellint.api.checks import check_program as check_program
from modellint.api.checks import check_source as check_source
from modellint.api.checks import fix_model as fix_model
from modellint.api.checks import shapes as shapes
from modellint.api.checks import verify as verify
from modellint.api.constant_inputs import with_constants as with_constants
from modellint.api.exports import ExportError as ExportError
from modellint.api.exports import ExportResult as ExportResult
from modellint.api.exports import export as export
from modellint.api.language_models import LanguageModelError as LanguageModelError
from modellint.api.language_models import LanguageModelResult as LanguageModelResult
from modellint.api.language_models import language_model as language_model
from modellint.api.pipelines import PipelineError as PipelineError
from modellint.api.pipelines import PipelineResult as PipelineResult
from modellint.api.pipelines import export_pipeline as export_pipeline
from modellint.api.random_inputs import with_random_inputs as with_random_inputs
from modellint.live.inputs.declared_inputs import Input as Input
from modellint.results.progress import Progress as Progress

displays.register()
