#![no_main]

drillcore_fuzz::program!("stream");
