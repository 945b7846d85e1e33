"""What the reason of a verdict means, and what would settle it where something is missing. Reads nothing."""

from __future__ import annotations

from typing import Final

from txmq_lib import names

# reason -> what it says.
MEANING: Final = {
    names.REASON_ELSEWHERE: "a message names one of its places and does not fit: other topic, other id, other bits",
    names.REASON_NO_REAL_TOPIC: "no half row tells its real topic, so nobody knows where a message would lie",
    names.REASON_LEFT_OUT: "its real topic never landed",
    names.REASON_QUARANTINED: "a record is in quarantine that may be its message",
    names.REASON_UNTOLD: (
        "its broker tells of its real queue no more, or of a new one of that name: the topic was deleted, the broker"
        " made anew, or the queue lies beyond readQueueNums"
    ),
    names.REASON_LOST: "retention removed messages of its real queue before they landed",
    names.REASON_GAP: "messages are missing between those of its real queue that landed",
    names.REASON_UNREAD: "its real queue was not read as far as the op",
    names.REASON_READ_PAST_OP: "its real queue was read without a gap from before the half to behind the op",
    names.REASON_LOG_READ: "the commit log was read without a hole from the half to behind the op",
    names.REASON_LIVE_READ: "its real queue was read to its end on the live broker after the op was stored",
    names.REASON_FROM_BEGINNING: "its real queue was read from its first message on, to behind the op: that is no"
    " proof if its topic was deleted and made anew behind the half",
    names.REASON_FILE_END: "the landed file ends where its real queue ended for the client that read it",
    names.REASON_DECIDED: "txmq decided it itself",
    names.REASON_NO_OP: "the op queue was read, and no op names it",
    names.REASON_OP_UNREAD: "an op of it may lie where nobody has read: ops or halves are missing behind its half",
    names.REASON_RESERVED_TIME: "it is older than the reserved time",
    names.REASON_CHECKS_OVER: "its broker keeps halves in RocksDB, and has checked it for the last time",
    names.REASON_UNDECIDED: "nothing that landed decides it",
    names.REASON_GIVEN_UP: "a given-up row has landed",
    names.REASON_VISIBLE: "its message is visible once",
    names.REASON_VISIBLE_TWICE: "its message is visible more than once",
    names.REASON_TWO_OPS: "more than one op names it",
    names.REASON_CONTRADICTING_ENDS: "an end came that contradicts the first",
    names.REASON_DIVERTED: "its half lies in the schedule or timer topic",
}
# What is missing -> what would settle it, in lines; {id} is the transaction's, {topic} its real topic.
ASK: Final = "else look in the producer's database"
SETTLED_BY: Final = {
    names.REASON_ELSEWHERE: (
        "look at the message that trace tells as not counted, and at txmq orphans --transaction-id {id}",
        "land the halves that are missing; " + ASK,
    ),
    names.REASON_NO_REAL_TOPIC: ("land the store of its broker: a whole log needs no topic; " + ASK,),
    names.REASON_LEFT_OUT: ("take {topic} into land.topics and land its broker again; " + ASK,),
    names.REASON_QUARANTINED: (
        "look at the record: txmq quarantine --wide",
        "land it from another copy: a slave's store, a backup, the live broker; " + ASK,
    ),
    names.REASON_UNTOLD: (
        "raise readQueueNums of {topic} to its writeQueueNums and land again, or land the store of its broker; " + ASK,
    ),
    names.REASON_LOST: ("land {topic} from a backup or an archive of the store; " + ASK,),
    names.REASON_GAP: ("land what is missing of {topic}: the file left out, the store, the live broker; " + ASK,),
    names.REASON_UNREAD: ("land more of {topic}; " + ASK,),
    names.REASON_FROM_BEGINNING: ("where {topic} may have been deleted once: land the store of its broker",),
    names.REASON_FILE_END: ("a later message of {topic}, or its broker's store, would confirm it",),
    names.REASON_OP_UNREAD: ("land what is missing of the half topic and the op topic; " + ASK,),
}
