/* What each action permits on a session, and that a recorded change has run under such a permit. */
#include <assert.h>

#include "registry/upload/upload_priv.h"

/* upload.begin is the action of a POST with the whole blob: the same request fills the session and closes it. */
bool upload_permits(enum action action, enum upload_use use)
{
    const bool closes = action == ACTION_UPLOAD_BEGIN || action == ACTION_UPLOAD_COMMIT;

    switch (use) {
    case UPLOAD_CLOSE: return closes;
    case UPLOAD_FILL: return closes || action == ACTION_UPLOAD_WRITE;
    case UPLOAD_LOOK: break;
    }
    return closes || action == ACTION_UPLOAD_WRITE || action == ACTION_UPLOAD_READ;
}

void upload_check(const struct upload *upload, enum upload_use use)
{
    assert(upload->found == SEARCH_FOUND); /* upload_find() or upload_of_begin() took the permit */
    assert(upload_permits(upload->action, use));
}

void upload_require(struct upload *upload, const struct permit *permit, const struct change *change, enum upload_use use)
{
    upload_check(upload, use);
    permit_require(permit, upload->action, &upload->where);
    upload->ran = change;
}

struct result upload_record(struct upload *upload, struct recorder *recorder, enum outcome outcome, const char *note,
                            struct change *change, struct error *err)
{
    upload->ran = NULL;
    TRY(recorder->record(recorder, outcome, note, change, err));
    assert(upload->ran ==
           change); /* a recorder that runs no change has recorded nothing, so no bytes may be removed or counted */
    return SUCCESS;
}
