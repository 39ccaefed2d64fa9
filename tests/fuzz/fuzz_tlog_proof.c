/* A proof that is read is written again to the byte, and checking it with any entry does no harm. */
#include <assert.h>

#include "audit/format/proof.h"
#include "audit/format/proof_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char vkey[] = "sijil.example/audit+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";
    static struct proof_report report;
    struct buffer OWNED_BUFFER again = BUFFER(2 * TLOG_PROOF_MAX);
    struct tlog_proof proof;
    struct error err;
    const struct bytes text = {data, size};

    (void)proof_check(bytes_of_text(vkey), bytes_of_text("entry"), text, &report, &err).ok;
    if (!tlog_proof_read(text, &proof, &err).ok) return 0;
    assert(tlog_proof_write(&proof, &again, &err).ok);
    assert(bytes_equal(buffer_bytes(&again), text));
    return 0;
}
