"""What uploaded reports say beside the warehouse."""

from answers.compare.uploaded import told
from answers.compare.values import Question
from dashboard.answers import upload as answers_upload
from dashboard.answers.upload import Upload
from dashboard.shelf import Shelf, reader
from dashboard.upload import Uploaded
from warehouse.filters import Filters


def upload(shelf: Shelf, filters: Filters | None, mine: Uploaded) -> Upload:
    """What the reports say beside their partners among the filtered cells (None: on their own).

    Never in the shared cache: what somebody drops here is theirs alone.
    """
    if mine.held is None:
        return answers_upload.NOTHING
    if filters is None:
        return answers_upload.upload(told(mine.held, None, Question()))
    return answers_upload.upload(told(mine.held, reader(shelf), Question(filters)))
