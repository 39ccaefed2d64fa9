/* Signed plans of a recovery: two envelopes that are read have one statement, and no made-up signature counts as one of the officers. */
#include <assert.h>

#include "audit/format/succession_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ecdsa_key *officers[SUCCESSION_OFFICERS];
    struct succession_plans plans = {.count = 0};
    struct succession_report report;
    struct error err;

    for (size_t i = 0; i < SUCCESSION_OFFICERS; i++)
        if (officers[i] == NULL) assert(ecdsa_key_new(&officers[i], &err).ok);
    if (succession_plans_read((struct bytes){data, size}, &plans, &err).ok) {
        const struct succession_trust trust = {
            {bytes_of_text("sijil.example/audit+c63c23bb+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"), NULL},
            {officers[0], plans.count == 1 ? NULL : officers[1]},
            0};
        assert(plans.count >= 1 && plans.count <= SUCCESSION_OFFICERS_MAX);
        for (size_t i = 1; i < plans.count; i++)
            assert(bytes_equal(buffer_bytes(&plans.each[0]->payload), buffer_bytes(&plans.each[i]->payload)));
        assert(!succession_check(&trust, &plans, &report, &err).ok);
    }
    succession_plans_done(&plans);
    return 0;
}
