"""What is kept and read: plain records, files that appear whole, pages for people."""

from sklearn_puffer._documents.document import (
    WAYS,
    Document,
    FoldedDocument,
    Page,
    Section,
    check_free,
    explained,
    growing_file,
    located,
    render,
    templates,
    told,
    write_new,
)
from sklearn_puffer._documents.records import (
    FieldError,
    Fields,
    Number,
    __version__,
    all_written,
    digest,
    json_record,
    jsonable,
    number,
    plain_tree,
    read_as,
    read_tree,
    stated,
    utc_now,
    written,
)
